"""Our edits of the Horovod 0.28.1 source archive: for today's frameworks, and for speed on CPUs.

Horovod 0.28.1 (June 2023) is the last release. It predates torch 2.1, TensorFlow 2.16 and
Python 3.12. Run as a program on a freshly unpacked source tree:

    python3 -m containers.horovod.edits SOURCE_DIR

`NEW_FILES` is our code, which stands in `src/` as C++ and beside this file as Python. `ROWS` hooks
it in (edit.py). Nothing is written where a row does not fit: the tree is not the released 0.28.1,
or was edited before.
"""

from __future__ import annotations

import sys
from pathlib import Path

from .edit import EditError, NewFile, Row, apply

APPLY = (
    "under Keras 2 only `fit` averaged: gradients that a loop of one's own gave to apply_gradients"
    " were applied as they were, and every rank trained alone"
)
AVERAGED = "averages of several tensors are divided while they are copied out, not before"
BFLOAT16 = "bfloat16 is what most models are trained in (asked for upstream in horovod#4047)"
BLOCK = (
    "a rank that waits sleeps after 50 microseconds, in which most small exchanges end: its core"
    " belongs to the threads that exchange"
)
# A thread that finds the pair locked polls again at once, and may keep its core from the one that
# has the lock for a slice of the scheduler: milliseconds.
BUSY = "Gloo's thread kept the core from who held the lock that it wanted: 6 ms instead of 0.2"
CALLBACKS = "callbacks for models of either Keras, whichever the module imported"
CROSS_RANKS = (
    "the ranks of different nodes in a process set were paired by their local ranks in the world,"
    " and met by those in the set: they waited for each other; over MPI the set's count"
)
CXX17 = "torch >= 2.1 and TensorFlow >= 2.16 headers need C++17"
DISTUTILS = "Python 3.12 has no distutils"
DOUBLING = "little data: log2(N) messages one after the other, where a ring has 4(N-1)"
FEWER_HEADERS = "tensors and their Python types are a half of what torch/extension.h reads"
FIRST_STEP = "without the callback the ranks kept the weights that each had begun with"
GCC13 = "gcc 13 no longer includes it through other headers"
INT8 = "MPI, Gloo and NCCL reduce 8-bit integers, but nothing offered them to PyTorch"
KERAS = "the callbacks must use the Keras that TensorFlow uses (tf-keras), not Keras 3"
KERAS3 = "Keras 3's optimizers have no method that Horovod overrode: every rank trained alone"
LAYERS = "the other Keras has layers too"
LOCAL_GRADIENTS = (
    "with HOROVOD_ELASTIC the number of ranks is a tensor of integers, by which no gradient can be"
    " divided (upstream: #3985)"
)
# A framework's headers take longer to read than Horovod's own code. In a unity build one source
# includes all files of a library (CMake: UNITY_BUILD).
ONE_GLOO = (
    "Gloo was compiled again for TensorFlow, as C++17 in place of C++11; it is C++17 already, the"
    " copy is for TensorFlow with the old C++ ABI alone"
)
ONE_SOURCE = "the framework's headers are read once, not for each of 26 files"
VARIABLES = "Keras 3 wraps TensorFlow's variables, which alone have ref() and can be exchanged"
WAKE = (
    "a rank that waited for a tensor sat out the rest of the cycle; now its waiting ends the cycle,"
    " and with that cycles of 10 ms beat those of 1 ms: fewer and larger exchanges. Builds for GPUs"
    " keep cycles of 1 ms, since gradients are exchanged while the GPU computes others"
)

HERE = Path(__file__).parent
NEW_FILES = tuple(
    NewFile(f"{folder}/{Path(source).name}", HERE / source, why)
    for source, folder, why in (
        ("src/waiting.h", "horovod/common", WAKE),
        ("src/waiting.cc", "horovod/common", WAKE),
        ("src/handle_waits.h", "horovod/torch", BLOCK),
        ("src/handle_waits.cc", "horovod/torch", BLOCK),
        ("src/doubling.h", "third_party/gloo/gloo", DOUBLING),
        ("src/scaled_copies.cc", "horovod/common/ops", AVERAGED),
        ("src/process_set_ranks.h", "horovod/common", CROSS_RANKS),
        ("src/bfloat16.h", "horovod/common", BFLOAT16),
        ("src/mpi_bfloat16.h", "horovod/common/mpi", BFLOAT16),
        ("src/torch_types.h", "horovod/torch", f"{BFLOAT16}; {INT8}"),
        ("src/tensorflow_types.h", "horovod/tensorflow", BFLOAT16),
        ("bf16.py", "horovod/common", BFLOAT16),
        ("variables.py", "horovod/tensorflow", VARIABLES),
        ("both.py", "horovod/_keras", CALLBACKS),
        ("keras3.py", "horovod/_keras", KERAS3),
    )
)

CMAKE = "CMakeLists.txt"
CUDA = "horovod/common/ops/cuda"
GLOO = "third_party/gloo"
OPS = "horovod/common/ops"
ADASUM = f"{OPS}/adasum/adasum.h"
MPI = "horovod/common/mpi/mpi_context"
RANKS = "horovod/common/gloo/gloo_context.cc"
TORCH = "horovod/torch"
TF = "horovod/tensorflow"
OPTIMIZER = "horovod/_keras/__init__.py"
CALLBACK = "horovod/_keras/callbacks.py"
AS_GRADIENT = "horovod_size = tf.cast(horovod_size, grad.dtype)"
CASE = "case HOROVOD_BFLOAT16: "
EXTENSION = "torch/extension.h"
IMPORT_BF16 = "from horovod.common.bf16 import compressor"
IS_VARIABLE = "isinstance({}, tf.Variable)"
IS_LAYER, HAS_WEIGHTS = "isinstance({}, tf.keras.layers.Layer)", "hasattr({}, 'trainable_weights')"
KERAS_BACKEND = "from keras import backend as K"
MPI_OP = "dtype == HOROVOD_BFLOAT16 ? mpi_bfloat16.{} : {}"
RATE = "self.backend.get_value(self.model.optimizer.lr)"
RATE_OF_BOTH = "both.rate_of(self.model.optimizer, self.backend)"
SOURCE = '"${{PROJECT_SOURCE_DIR}}/horovod/{}"'
UNITY = "set_target_properties({} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 0)"

COMPILING = (
    Row(
        "setup.py",
        "RelWithDebInfo",
        "-g takes two fifths of the time to compile, and 34 of 36 MB; -O3 stays",
        instead="Release",
    ),
    Row(CMAKE, "CMAKE_CXX_STANDARD 14", CXX17, instead="CMAKE_CXX_STANDARD 17"),
    Row(f"{TORCH}/{CMAKE}", "CMAKE_CXX_STANDARD 14", CXX17, instead="CMAKE_CXX_STANDARD 17"),
    Row(
        f"{GLOO}/{CMAKE}",
        "c++11",
        "gloo must speak the same C++ as its callers, or linking fails on"
        " gloo::rendezvous::Store::kDefaultTimeout (an inline variable from C++17 on)",
        instead="c++17",
    ),
    Row(
        f"{CUDA}/{CMAKE}",
        "CMAKE_CUDA_STANDARD 11",
        "nvcc compiles with the host compiler's headers, which need C++17 from gcc 11 on",
        instead="CMAKE_CUDA_STANDARD 17",
    ),
    Row(
        f"{TF}/{CMAKE}",
        '"${PROJECT_SOURCE_DIR}/horovod/tensorflow/xla_mpi_ops.cc"',
        "needs XLA headers that the TensorFlow wheel lacks; costs only HOROVOD_ENABLE_XLA_OPS",
        instead="",
    ),
    Row("horovod/common/common.h", "#include <memory>", GCC13, after="#include <stdexcept>"),
    Row("horovod/common/group_table.h", "#include <queue>", GCC13, after="#include <string>"),
    Row(
        f"{TORCH}/{CMAKE}",
        "from distutils.sysconfig import get_python_inc; print(get_python_inc())",
        DISTUTILS,
        instead="import sysconfig; print(sysconfig.get_path('include'))",
    ),
    Row(
        "horovod/runner/js_run.py",
        "distutils.spawn import find_executable",
        DISTUTILS,
        instead="shutil import which as find_executable",
    ),
    Row(f"{TF}/keras/__init__.py", KERAS_BACKEND, KERAS, instead="K = tf.keras.backend"),
    Row(f"{TF}/keras/callbacks.py", KERAS_BACKEND, KERAS, instead="K = tf.keras.backend"),
    Row(
        f"{TF}/{CMAKE}",
        "if (Tensorflow_CXX17)",
        ONE_GLOO,
        instead="if (Tensorflow_CXX17 AND NOT Tensorflow_CXX11)",
    ),
    Row(
        CMAKE,
        "DEFINED Tensorflow_CXX17 AND Tensorflow_CXX17",
        ONE_GLOO,
        instead="Tensorflow_CXX17 AND NOT Tensorflow_CXX11",
    ),
    Row(
        f"{GLOO}/gloo/{CMAKE}",
        "add_library(gloo ${GLOO_STATIC_OR_SHARED} ${GLOO_SRCS})",
        "its headers are read once; allreduce.cc, whose ReductionFunction is another than that of"
        " algorithm.h, is compiled alone",
        after=UNITY.format("gloo") + "\n"
        'set_source_files_properties("${CMAKE_CURRENT_SOURCE_DIR}/allreduce.cc"\n'
        "  PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)",
    ),
    Row(
        f"{TF}/{CMAKE}",
        'OUTPUT_NAME "mpi_lib")',
        ONE_SOURCE,
        after=UNITY.format("${TF_TARGET_LIB}"),
    ),
    Row(
        f"{TORCH}/{CMAKE}",
        'OUTPUT_NAME "mpi_lib_v2")',
        ONE_SOURCE,
        after=UNITY.format("${PYTORCH_TARGET_LIB}"),
    ),
    Row(f"{TORCH}/adapter_v2.h", EXTENSION, FEWER_HEADERS, instead="torch/csrc/utils/pybind.h"),
    Row(f"{TORCH}/adapter_v2.h", "torch/torch.h", FEWER_HEADERS, instead="torch/types.h"),
    Row(f"{TORCH}/mpi_ops_v2.cc", EXTENSION, FEWER_HEADERS, instead="torch/csrc/utils/pybind.h"),
    Row(f"{TORCH}/mpi_ops_v2.cc", "torch/torch.h", FEWER_HEADERS, instead="torch/types.h"),
    Row(
        f"{CUDA}/{CMAKE}",
        "add_library(compatible_horovod_cuda_kernels",
        "the copy for the old C++ ABI is compiled only where a framework links it",
        instead="add_library(compatible_horovod_cuda_kernels EXCLUDE_FROM_ALL",
    ),
)

REPAIRS = (
    Row(
        "horovod/common/controller.cc",
        "devices(requests.size())",
        # One too many where ranks have joined: a response of another size than the world is not
        # cached.
        "after hvd.join() rank 0 wrote beyond it, at the numbers of ranks, and crashed from 7 ranks"
        " on",
        instead="devices(size_ + ((int)requests.size() < size_))",
    ),
    Row(RANKS, '#include "gloo_context.h"', CROSS_RANKS, after='#include "../process_set_ranks.h"'),
    Row(
        RANKS,
        "auto global_context_all_cross_ranks =\n"
        "      EnumerateSubRanks(global_context.ctx, global_context.cross_ctx);",
        CROSS_RANKS,
        instead="",
    ),
    Row(
        RANKS,
        "RanksIntersection(ranks, global_context_all_cross_ranks)",
        CROSS_RANKS,
        instead="RanksWithLocalRank(local_rank, ranks, EnumerateSubRanks(local_ctx, ctx))",
    ),
    Row(f"{TF}/__init__.py", "grad = s2g[s_ref]", LOCAL_GRADIENTS, after=AS_GRADIENT),
    Row(f"{TF}/__init__.py", "grad = s2g[s]", LOCAL_GRADIENTS, after=AS_GRADIENT),
    Row(
        "horovod/runner/mpi_run.py",
        "'MPICH' in output:",
        "MPICH 4 says 'HYDRA build details', not 'MPICH' (upstream: #3984)",
        instead="'MPICH' in output or 'HYDRA' in output:",
    ),
    Row(
        "horovod/runner/mpi_run.py",
        "nccl_socket_intf_arg =",
        "MPICH and Intel MPI took any network interface (upstream: #3946); they take one name",
        before="if nics and impi_or_mpich:\n    tcp_intf_arg = '-iface ' + sorted(nics)[0]",
    ),
    Row(
        "horovod/runner/driver/driver_service.py",
        "if not nics:",
        "a single remote host probes itself and reports its loopback; horovodrun takes any one of"
        " the interfaces, so half of the runs of horovodrun -H n2:2 on n1 found no rendezvous",
        before="nics.discard('lo')",
    ),
)

SPEED = (
    Row(CMAKE, 'horovod/common/operations.cc"', WAKE, after=SOURCE.format("common/waiting.cc")),
    Row(
        "horovod/common/operations.cc",
        '#include "operations.h"',
        WAKE,
        after='#include "waiting.h"',
    ),
    Row(
        "horovod/common/operations.cc",
        "auto start_time = std::chrono::steady_clock::now();",
        WAKE,
        instead="auto start_time = SleepForCycle(state);",
    ),
    Row(
        "horovod/common/tensor_queue.h",
        "void PopMessagesFromQueue(",
        WAKE,
        before="bool Empty() const; // in waiting.cc\n",
    ),
    Row(
        f"{TORCH}/{CMAKE}",
        "# Create library",
        BLOCK,
        before="list(APPEND PYTORCH_SOURCES " + SOURCE.format("torch/handle_waits.cc") + ")",
    ),
    Row(
        f"{TORCH}/handle_manager.h",
        '#include "../common/common.h"',
        BLOCK,
        after='#include "handle_waits.h"',
    ),
    Row(f"{TORCH}/handle_manager.h", "bool PollHandle(", BLOCK, after="void Wait(int handle);"),
    Row(f"{TORCH}/handle_manager.h", "std::mutex mutex_;", BLOCK, after="HandleWaits waits_;"),
    Row(
        f"{TORCH}/handle_manager.cc",
        "= std::make_shared<Status>(status);",
        BLOCK,
        after="waits_.Done(handle);",
    ),
    Row(f"{TORCH}/handle_manager.cc", "results_.clear();", BLOCK, after="waits_.AllDone();"),
    Row(
        f"{TORCH}/mpi_ops_v2.cc",
        "std::this_thread::yield();",
        BLOCK,
        instead="handle_manager.Wait(handle);",
    ),
    Row(
        f"{GLOO}/gloo/allreduce.cc",
        '#include "gloo/allreduce.h"',
        DOUBLING,
        after='#include "gloo/doubling.h"',
    ),
    Row(
        f"{GLOO}/gloo/allreduce.cc",
        "switch (opts.algorithm) {",
        DOUBLING,
        before="if (ReducesByDoubling(opts)) return AllreduceByDoubling(opts);",
    ),
    Row(
        f"{OPS}/gloo_operations.cc",
        "std::memcpy(buffer_data, first_entry.tensor->data(),\n                (size_t)",
        "a tensor that is reduced in place was copied onto itself",
        before="if (buffer_data != first_entry.tensor->data())",
    ),
    Row(
        CMAKE,
        'horovod/common/gloo/http_store.cc"',
        AVERAGED,
        after=SOURCE.format("common/ops/scaled_copies.cc"),
    ),
    Row(
        f"{OPS}/gloo_operations.h",
        "GlooAllreduce(HorovodGlobalState* global_state);",
        AVERAGED,
        after="Status ScaleOutOfFusionBuffer(double, std::vector<TensorTableEntry>&, const void*);",
    ),
    Row(
        f"{OPS}/gloo_operations.cc",
        "gloo_algos->Allreduce(buffer_data, num_elements, glooOp);",
        AVERAGED,
        after="if (entries.size() > 1 && postscale_factor != 1.0)\n"
        "  return ScaleOutOfFusionBuffer(postscale_factor, entries, buffer_data);",
    ),
    Row(
        f"{GLOO}/gloo/transport/tcp/pair.cc", "#include <sstream>", BUSY, after="#include <thread>"
    ),
    Row(
        f"{GLOO}/gloo/transport/tcp/pair.cc",
        "if (!lock) {",
        BUSY,
        after="  std::this_thread::yield();",
    ),
)

TYPES = (
    Row("horovod/common/message.h", "HOROVOD_BOOL = 9,", BFLOAT16, after="HOROVOD_BFLOAT16 = 10,"),
    Row(
        "horovod/common/message.cc", '#include "message.h"', BFLOAT16, after='#include "bfloat16.h"'
    ),
    Row(
        "horovod/common/message.cc",
        "return bool_;",
        BFLOAT16,
        after=f'{CASE}static const std::string bfloat16_("bfloat16");\nreturn bfloat16_;',
    ),
    Row("horovod/common/message.cc", "return sizeof(bool);", BFLOAT16, after=f"{CASE}return 2;"),
    Row(
        f"{OPS}/collective_operations.h",
        '#include "../half.h"',
        BFLOAT16,
        after='#include "../bfloat16.h"',
    ),
    Row(
        f"{OPS}/collective_operations.cc",
        "case HOROVOD_FLOAT32:",
        BFLOAT16,
        before="case HOROVOD_BFLOAT16:\n"
        "  ScaleBufferCPUImpl((const bfloat16*)fused_input_data, (bfloat16*)buffer_data,\n"
        "                     num_elements, (float)scale_factor);\n"
        "  break;",
    ),
    Row(
        f"{OPS}/gloo_operations.cc",
        "case HOROVOD_FLOAT32:",
        BFLOAT16,
        before="case HOROVOD_BFLOAT16:\n  return new GlooAlgorithms<bfloat16>(gloo_context);",
    ),
    Row(
        f"{OPS}/nccl_operations.cc",
        "return ncclFloat16;",
        BFLOAT16,
        after=f"{CASE}return ncclBfloat16;",
    ),
    Row(
        f"{CUDA}/cuda_kernels.cu",
        "#include <cuda_fp16.h>",
        BFLOAT16,
        after='#include "../../bfloat16.h"',
    ),
    Row(
        f"{CUDA}/cuda_kernels.cu",
        "case HOROVOD_FLOAT32:\n      scale",
        BFLOAT16,
        before="case HOROVOD_BFLOAT16:\n"
        "  scale_buffer_k<<<blocks, threads, 0, stream>>>((const bfloat16*)fused_input_data,\n"
        "                                                 (bfloat16*)buffer_data, num_elements,\n"
        "                                                 (float)scale_factor);\n"
        "  break;",
    ),
    Row(
        f"{CUDA}/cuda_kernels.cu",
        "case HOROVOD_FLOAT32:\n     batched",
        BFLOAT16,
        before="case HOROVOD_BFLOAT16:\n"
        "  batched_scaled_memcpy_k<bfloat16, BLOCKS_PER_COPY_D2D_KERNEL>\n"
        "      <<<blocks, threads, 0, stream>>>(params, (float)scale_factor);\n"
        "  break;",
    ),
    Row(ADASUM, '#include "../../common.h"', BFLOAT16, after='#include "../../bfloat16.h"'),
    Row(
        ADASUM,
        "case DataType::HOROVOD_FLOAT32:",
        BFLOAT16,
        before="case DataType::HOROVOD_BFLOAT16:\n"
        "  FusedAllreduce(entries, (bfloat16*)grad_buffer, (bfloat16*)recv_buffer, data_type,\n"
        "                 tensor_counts, start_level, communicator, tag, reduction_comms,\n"
        "                 global_state);\n"
        "  break;",
    ),
    Row(
        ADASUM,
        "} else if (horovod_datatype == DataType::HOROVOD_FLOAT64) {\n      Comp",
        BFLOAT16,
        before="} else if (horovod_datatype == DataType::HOROVOD_BFLOAT16) {\n"
        "  ComputeDotAndNormSqrds((bfloat16*)a, (bfloat16*)b, count, dotProduct, anormsq,\n"
        "                         bnormsq, layerid);",
    ),
    Row(
        ADASUM,
        "} else if (horovod_datatype == DataType::HOROVOD_FLOAT64) {\n      Scal",
        BFLOAT16,
        before="} else if (horovod_datatype == DataType::HOROVOD_BFLOAT16) {\n"
        "  ScaledAdd(count, acoeff, (bfloat16*)a, bcoeff, (bfloat16*)b, layerid);",
    ),
    Row(f"{MPI}.h", '#include "../half.h"', BFLOAT16, after='#include "mpi_bfloat16.h"'),
    Row(f"{MPI}.h", "MPI_Op mpi_float16_prod;", BFLOAT16, after="MPIBfloat16 mpi_bfloat16;"),
    Row(f"{MPI}.cc", "return mpi_float16_t;", BFLOAT16, after=f"{CASE}return mpi_bfloat16.type;"),
    Row(f"{MPI}.cc", "MPI_SUM;", BFLOAT16, instead=MPI_OP.format("sum", "MPI_SUM;")),
    Row(f"{MPI}.cc", "MPI_MIN;", BFLOAT16, instead=MPI_OP.format("min", "MPI_MIN;")),
    Row(f"{MPI}.cc", "MPI_MAX;", BFLOAT16, instead=MPI_OP.format("max", "MPI_MAX;")),
    Row(f"{MPI}.cc", "MPI_PROD;", BFLOAT16, instead=MPI_OP.format("prod", "MPI_PROD;")),
    Row(f"{MPI}.cc", "if (!ranks_.empty()) {", BFLOAT16, before="mpi_bfloat16.Create();"),
    Row(f"{MPI}.cc", "should_finalize = false;", BFLOAT16, after="mpi_bfloat16.Create();"),
    Row(
        f"{MPI}.cc",
        "if (mpi_float16_t != MPI_DATATYPE_NULL) {",
        BFLOAT16,
        before="mpi_bfloat16.Free();",
    ),
    Row(
        f"{TORCH}/adapter_v2.cc",
        "return ::torch::kHalf;",
        BFLOAT16,
        after="case common::HOROVOD_BFLOAT16: return ::torch::kBFloat16;",
    ),
    Row(
        f"{TORCH}/adapter_v2.cc",
        "return common::HOROVOD_FLOAT16;",
        BFLOAT16,
        after="case ::torch::kBFloat16: return common::HOROVOD_BFLOAT16;",
    ),
    Row(
        f"{TORCH}/mpi_ops_v2.cc",
        "PYBIND11_MODULE(mpi_lib_v2, m) {",
        f"{BFLOAT16}; {INT8}",
        before='#include "torch_types.h"\n',
        after="  RegisterMoreTypes(m);",
    ),
    Row(
        f"{TF}/mpi_ops.cc",
        "using namespace tensorflow;",
        BFLOAT16,
        before='#include "tensorflow_types.h"\n',
    ),
    Row(
        f"{TF}/mpi_ops.cc",
        "return DT_HALF;",
        BFLOAT16,
        after="case common::HOROVOD_BFLOAT16: return DT_BFLOAT16;",
    ),
    Row(
        f"{TF}/mpi_ops.cc",
        "return common::HOROVOD_FLOAT16;",
        BFLOAT16,
        after="case DT_BFLOAT16: return common::HOROVOD_BFLOAT16;",
    ),
    Row(
        f"{TF}/mpi_ops.cc",
        "PROCESS_CASE(DT_HALF, ",
        BFLOAT16,
        before="PROCESS_CASE(DT_BFLOAT16, Eigen::bfloat16)",
    ),
    Row(f"{TORCH}/compression.py", "import torch", BFLOAT16, after=IMPORT_BF16),
    Row(
        f"{TORCH}/compression.py",
        "fp16 = FP16Compressor",
        BFLOAT16,
        after="bf16 = compressor(FP16Compressor, lambda tensor: tensor.bfloat16())",
    ),
    Row(f"{TF}/compression.py", "import tensorflow as tf", BFLOAT16, after=IMPORT_BF16),
    Row(
        f"{TF}/compression.py",
        "fp16 = FP16Compressor",
        BFLOAT16,
        after="bf16 = compressor(FP16Compressor, lambda tensor: tf.cast(tensor, tf.bfloat16))",
    ),
)

IN_TENSORFLOW = (
    Row(
        f"{TF}/__init__.py",
        "from horovod.tensorflow.mpi_ops import join",
        VARIABLES,
        after="from horovod.tensorflow.variables import mark_reduced, unwrapped",
    ),
    Row(
        f"{TF}/__init__.py",
        "gradients = super(self.__class__, self).gradient(",
        VARIABLES,
        before="sources = [unwrapped(source) for source in sources]",
    ),
    Row(
        f"{TF}/__init__.py",
        "[s2g[s.ref()] for s in sources]",
        "gradients that a DistributedGradientTape averaged are not averaged again",
        instead="mark_reduced([s2g[s.ref()] for s in sources])",
    ),
    Row(f"{TF}/__init__.py", "source.ref()", VARIABLES, instead="unwrapped(source).ref()"),
    Row(f"{TF}/__init__.py", "s.ref() in", VARIABLES, instead="unwrapped(s).ref() in"),
    Row(
        f"{TF}/functions.py",
        "from horovod.tensorflow.mpi_ops import rank, size",
        VARIABLES,
        after="from horovod.tensorflow.variables import unwrapped",
    ),
    Row(
        f"{TF}/functions.py",
        "if inplace:",
        VARIABLES,
        before="variables = [unwrapped(variable) for variable in variables]",
    ),
    Row(
        f"{TF}/__init__.py",
        IS_LAYER.format("local_layers"),
        LAYERS,
        instead=HAS_WEIGHTS.format("local_layers"),
    ),
    Row(f"{TF}/__init__.py", IS_LAYER.format("layer"), LAYERS, instead=HAS_WEIGHTS.format("layer")),
    Row(
        "horovod/keras/__init__.py",
        IS_LAYER.format("local_layers"),
        LAYERS,
        instead=HAS_WEIGHTS.format("local_layers"),
    ),
    Row(
        "horovod/keras/__init__.py",
        IS_LAYER.format("layer"),
        LAYERS,
        instead=HAS_WEIGHTS.format("layer"),
    ),
)

OPTIMIZERS = (
    Row(
        OPTIMIZER,
        "import rank, size_op",
        KERAS3,
        after="from horovod._keras import both, keras3",
    ),
    Row(
        OPTIMIZER,
        "class _DistributedOptimizer(",
        KERAS3,
        before="if both.is_keras_3(optimizer):\n    return keras3.distributed(**locals())\n",
    ),
    Row(
        OPTIMIZER,
        "elif hasattr(base_class, '_aggregate_gradients'):",
        APPLY,
        before="grads_and_vars = both.reduced(self, grads_and_vars)",
        instead="if hasattr(base_class, '_aggregate_gradients'):",
    ),
    Row(
        OPTIMIZER,
        "def _allreduce(self, grads, vars):",
        APPLY,
        before="aggregate_gradients = _aggregate_gradients  # the name since Keras 2.11\n",
    ),
    Row(
        OPTIMIZER,
        "self._aggregated_gradients = False",
        FIRST_STEP,
        after="self._first_step = both.FirstStep(self._name, process_set)",
    ),
    Row(
        OPTIMIZER,
        "self._aggregated_gradients = True",
        FIRST_STEP,
        after="self._first_step.equalize([v for v in vars if v.ref() not in self._local_vars])",
    ),
    Row(
        OPTIMIZER,
        "results = self._agg_helper.apply_gradients(",
        APPLY,
        before="args = (both.reduced_for_helper(self, args[0]), *args[1:])",
    ),
    Row(OPTIMIZER, "return results", APPLY, before="self._aggregated_gradients = False"),
    Row(
        OPTIMIZER,
        "if legacy_opts:",
        KERAS3,
        before="if both.is_version_3(keras):\n"
        "    return keras3.load_model(keras, wrap_optimizer, filepath, custom_objects)",
    ),
)

CALLBACK_ROWS = (
    Row(
        CALLBACK,
        "import horovod.tensorflow as hvd",
        CALLBACKS,
        after="from horovod._keras import both",
    ),
    Row(
        CALLBACK,
        "BroadcastGlobalVariablesCallbackImpl(object)",
        f"{CALLBACKS}; the first step too is one of equal weights",
        instead="BroadcastGlobalVariablesCallbackImpl(both.BroadcastsOfBothKeras)",
    ),
    Row(
        CALLBACK,
        "MetricAverageCallbackImpl(object)",
        CALLBACKS,
        instead="MetricAverageCallbackImpl(both.OfBothKeras)",
    ),
    Row(
        CALLBACK,
        "LearningRateScheduleCallbackImpl(object)",
        CALLBACKS,
        instead="LearningRateScheduleCallbackImpl(both.OfBothKeras)",
    ),
    Row(CALLBACK, "var.ref())", VARIABLES, instead="both.unwrapped(var).ref())"),
    Row(
        CALLBACK,
        "self.model.variables if",
        VARIABLES,
        instead="both.variables_of(self.model) if",
    ),
    Row(
        CALLBACK,
        "self.model.optimizer.variables()",
        VARIABLES,
        instead="both.variables_of(self.model.optimizer)",
    ),
    Row(
        CALLBACK,
        "self.backend.constant(value, name=metric)).numpy()",
        f"{CALLBACKS}; metrics were NumPy's numbers, which JSON refuses",
        instead="tf.cast(value, tf.float32)).numpy().tolist()",
    ),
    Row(CALLBACK, f"old_lr = {RATE}", CALLBACKS, instead=f"old_lr = {RATE_OF_BOTH}"),
    Row(CALLBACK, f"initial_lr = {RATE}", CALLBACKS, instead=f"initial_lr = {RATE_OF_BOTH}"),
    Row(CALLBACK, f"logs['lr'] = {RATE}", CALLBACKS, instead=f"logs['lr'] = {RATE_OF_BOTH}"),
    Row(CALLBACK, f"new_lr = {RATE}", CALLBACKS, instead=f"new_lr = {RATE_OF_BOTH}"),
    Row(
        CALLBACK,
        "self.backend.set_value(self.model.optimizer.lr, new_lr)",
        CALLBACKS,
        instead="both.set_rate(self.model.optimizer, self.backend, new_lr)",
    ),
    Row(
        CALLBACK,
        "hasattr(self.model.optimizer, 'momentum') and self.momentum_correction",
        "in optimizers since Keras 2.11 momentum is a number: the callback crashed",
        instead="self.momentum_correction and both.can_correct(self.model.optimizer)",
    ),
    Row(
        "horovod/keras/callbacks.py",
        IS_VARIABLE.format("local_variables"),
        VARIABLES,
        instead="not isinstance(local_variables, (list, tuple, set))",
    ),
    Row(
        "horovod/keras/callbacks.py",
        IS_VARIABLE.format("var"),
        VARIABLES,
        instead="hasattr(var, 'assign')",
    ),
    Row(
        f"{TF}/keras/callbacks.py",
        IS_VARIABLE.format("local_variables"),
        VARIABLES,
        instead="not isinstance(local_variables, (list, tuple, set))",
    ),
    Row(
        f"{TF}/keras/callbacks.py",
        IS_VARIABLE.format("var"),
        VARIABLES,
        instead="hasattr(var, 'assign')",
    ),
)

ROWS = (*COMPILING, *REPAIRS, *SPEED, *TYPES, *IN_TENSORFLOW, *OPTIMIZERS, *CALLBACK_ROWS)


def edit(tree: Path) -> list[str]:
    """Edit a freshly unpacked tree; return the edited files. Raises EditError."""
    try:
        return apply(tree, ROWS, NEW_FILES)
    except EditError as error:
        advice = "Edit a freshly unpacked horovod-0.28.1; the build edits the tree it runs in."
        raise EditError(f"{error}\n{advice}") from None


def main(argv: list[str]) -> int:
    """Edit the source tree named on the command line."""
    if len(argv) != 1:
        print("usage: python3 -m containers.horovod.edits SOURCE_DIR", file=sys.stderr)
        return 2
    try:
        files = edit(Path(argv[0]))
    except EditError as error:
        print(f"edits.py: {error}", file=sys.stderr)
        return 1
    print(f"edits.py: {len(ROWS)} rows and {len(NEW_FILES)} new files, {len(files)} files in all")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
