"""Our edits of the Horovod 0.28.1 source archive: for today's frameworks, and for speed on CPUs.

Horovod 0.28.1 (June 2023) is the last release. It predates torch 2.1, TensorFlow 2.16 and
Python 3.12. Run as a program on a freshly unpacked source tree:

    python3 edits.py SOURCE_DIR

Every edit states how often its old text occurs; any other count means that the tree is not the
released 0.28.1, or was edited before, and nothing is written at all.
"""

from __future__ import annotations

import sys
from pathlib import Path

from containers.horovod import compile_once, data_types, for_keras, speed
from containers.horovod.edit import Edit, EditError, apply

CXX17 = "torch >= 2.1 and TensorFlow >= 2.16 headers need C++17"
GLOO17 = (
    "gloo must speak the same C++ as its callers, or linking fails on"
    " gloo::rendezvous::Store::kDefaultTimeout (an inline variable from C++17 on)"
)
RELEASE = "-g takes two fifths of the time to compile, and 34 of 36 MB; -O3 stays"
KERAS = "the callbacks must use the Keras that TensorFlow uses (tf-keras), not Keras 3"

COMPILING = (
    Edit("setup.py", "else 'RelWithDebInfo'", "else 'Release'", RELEASE),
    Edit("CMakeLists.txt", "set(CMAKE_CXX_STANDARD 14)", "set(CMAKE_CXX_STANDARD 17)", CXX17),
    Edit(
        "horovod/torch/CMakeLists.txt",
        "set(CMAKE_CXX_STANDARD 14)",
        "set(CMAKE_CXX_STANDARD 17)",
        CXX17,
    ),
    Edit("third_party/gloo/CMakeLists.txt", "-std=c++11", "-std=c++17", GLOO17),
    Edit(
        "horovod/common/ops/cuda/CMakeLists.txt",
        "set(CMAKE_CUDA_STANDARD 11)",
        "set(CMAKE_CUDA_STANDARD 17)",
        "nvcc compiles with the host compiler's headers, which need C++17 from gcc 11 on",
    ),
    Edit(
        "horovod/tensorflow/CMakeLists.txt",
        'list(APPEND TF_SOURCES "${PROJECT_SOURCE_DIR}/horovod/tensorflow/xla_mpi_ops.cc")\n',
        "",
        "needs XLA headers that the TensorFlow wheel lacks; costs only HOROVOD_ENABLE_XLA_OPS",
    ),
    Edit(
        "horovod/common/common.h",
        "#include <memory>\n",
        "#include <memory>\n#include <stdexcept>\n",
        "gcc 13 no longer includes it through other headers",
    ),
    Edit(
        "horovod/common/group_table.h",
        "#include <queue>\n",
        "#include <queue>\n#include <string>\n",
        "gcc 13 no longer includes it through other headers",
    ),
    Edit(
        "horovod/torch/CMakeLists.txt",
        "from distutils.sysconfig import get_python_inc; print(get_python_inc())",
        "import sysconfig; print(sysconfig.get_path('include'))",
        "Python 3.12 has no distutils",
    ),
    Edit(
        "horovod/runner/js_run.py",
        "from distutils.spawn import find_executable",
        "from shutil import which as find_executable",
        "Python 3.12 has no distutils",
    ),
    Edit(
        "horovod/tensorflow/keras/__init__.py",
        "    from keras import backend as K",
        "    K = tf.keras.backend",
        KERAS,
    ),
    Edit(
        "horovod/tensorflow/keras/callbacks.py",
        "    from keras import backend as K",
        "    K = tf.keras.backend",
        KERAS,
    ),
)

# One too many where ranks have joined: a response of another size than the world is not cached.
JOINED = (
    "after hvd.join() rank 0 wrote beyond it, at the numbers of ranks, and crashed from 7 ranks on"
)
LOCAL_GRADIENTS = (
    "with HOROVOD_ELASTIC the number of ranks is a tensor of integers, by which no gradient can be"
    " divided (upstream: #3985)"
)
HYDRA = "MPICH 4 says 'HYDRA build details', not 'MPICH' (upstream: #3984)"
INTERFACE = "MPICH and Intel MPI took any network interface (upstream: #3946); they take one name"
# In the world, rank 1 of two nodes with two each is opposite rank 3. In the set of ranks 1, 2 and 3
# it is the first of its node, and so opposite rank 2.
CROSS_RANKS = (
    "the ranks of different nodes in a process set were paired by their local ranks in the world,"
    " and met by those in the set: they waited for each other; over MPI the set's count"
)
LOOPBACK = (
    "a single remote host probes itself and reports its loopback; horovodrun takes any one of the"
    " interfaces, so half of the runs of horovodrun -H n2:2 on n1 found no rendezvous"
)
GLOO_CONTEXT = "horovod/common/gloo/gloo_context.cc"
TAPE, MPIRUN = "horovod/tensorflow/__init__.py", "horovod/runner/mpi_run.py"
REPAIRS = (
    Edit(
        "horovod/common/controller.cc",
        "devices(requests.size());",
        "devices(size_ + ((int)requests.size() < size_));",
        JOINED,
    ),
    Edit(
        GLOO_CONTEXT,
        "  auto global_context_all_cross_ranks =\n"
        "      EnumerateSubRanks(global_context.ctx, global_context.cross_ctx);\n",
        "",
        CROSS_RANKS,
    ),
    Edit(
        GLOO_CONTEXT,
        "  auto global_context_cross_ranks =\n"
        "      RanksIntersection(ranks, global_context_all_cross_ranks);\n",
        "  auto local_ranks = EnumerateSubRanks(local_ctx, ctx);\n"
        "  std::vector<int> global_context_cross_ranks;\n"
        "  for (int i = 0; i < size; ++i) {\n"
        "    if (local_ranks[i] == local_rank) {\n"
        "      global_context_cross_ranks.push_back(ranks[i]);\n"
        "    }\n"
        "  }\n",
        CROSS_RANKS,
    ),
    *(
        Edit(
            TAPE,
            f"    grad = s2g[{key}]\n",
            f"    grad = s2g[{key}]\n{' ' * 28}horovod_size = tf.cast(horovod_size, grad.dtype)\n",
            LOCAL_GRADIENTS,
        )
        for key in ("s_ref", "s")
    ),
    Edit(MPIRUN, "'MPICH' in output:", "'MPICH' in output or 'HYDRA' in output:", HYDRA),
    Edit(
        MPIRUN,
        "        nics=','.join(nics)) if nics and not impi_or_mpich else ''\n",
        "        nics=','.join(nics)) if nics and not impi_or_mpich else ''\n"
        "    if nics and impi_or_mpich:\n"
        "        tcp_intf_arg = '-iface ' + sorted(nics)[0]\n",
        INTERFACE,
    ),
    Edit(
        "horovod/runner/driver/driver_service.py",
        "    if not nics:\n        raise Exception(\n",
        "    nics.discard('lo')\n    if not nics:\n        raise Exception(\n",
        LOOPBACK,
    ),
)
EDITS = (
    *COMPILING,
    *compile_once.EDITS,
    *REPAIRS,
    *speed.EDITS,
    *data_types.EDITS,
    *for_keras.EDITS,
)


def main(argv: list[str]) -> int:
    """Edit the source tree named on the command line."""
    if len(argv) != 1:
        print("usage: python3 edits.py SOURCE_DIR", file=sys.stderr)
        return 2
    try:
        files = apply(Path(argv[0]), EDITS)
    except EditError as error:
        print(f"edits.py: {error}", file=sys.stderr)
        return 1
    print(f"edits.py: made {len(EDITS)} edits in {len(files)} files")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
