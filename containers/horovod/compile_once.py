"""Edits that halve what compiling costs: nothing is compiled twice, headers are read once.

A framework's headers take longer to read than Horovod's own code: each of the 26 files of a library
read them again. In a unity build one source includes them all (CMake: UNITY_BUILD).
"""

from __future__ import annotations

from containers.horovod.edit import Edit

ONE_GLOO = (
    "Gloo was compiled again for TensorFlow, as C++17 in place of C++11; it is C++17 already, the"
    " copy is for TensorFlow with the old C++ ABI alone"
)
ONE_SOURCE = "the framework's headers are read once, not for each of 26 files"
GLOO_SOURCE = (
    "its headers are read once; allreduce.cc, whose ReductionFunction is another than that of"
    " algorithm.h, is compiled alone"
)
FEWER_HEADERS = "tensors and their Python types are a half of what torch/extension.h reads"
KERNELS = "the copy for the old C++ ABI is compiled only where a framework links it"
TF = "horovod/tensorflow/CMakeLists.txt"
UNITY = "set_target_properties({} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 0)\n"


def _unity(file: str, target: str, name: str) -> Edit:
    """Compile a framework's library as one source."""
    last = f'set_target_properties({target} PROPERTIES OUTPUT_NAME "{name}")\n'
    return Edit(file, last, last + UNITY.format(target), ONE_SOURCE)


GLOO_LIBRARY = "add_library(gloo ${GLOO_STATIC_OR_SHARED} ${GLOO_SRCS})\n"
ALONE = (
    'set_source_files_properties("${CMAKE_CURRENT_SOURCE_DIR}/allreduce.cc"\n'
    "  PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)\n"
)
EDITS = (
    Edit(
        TF,
        "    if (Tensorflow_CXX17)\n       list(APPEND TF_LINKER_LIBS compatible17_gloo)\n"
        "    elseif (Tensorflow_CXX11)\n        list(APPEND TF_LINKER_LIBS gloo)\n",
        "    if (Tensorflow_CXX11)\n        list(APPEND TF_LINKER_LIBS gloo)\n"
        "    elseif (Tensorflow_CXX17)\n       list(APPEND TF_LINKER_LIBS compatible17_gloo)\n",
        ONE_GLOO,
    ),
    Edit(
        "CMakeLists.txt",
        "(DEFINED Tensorflow_CXX17 AND Tensorflow_CXX17)",
        "(Tensorflow_CXX17 AND NOT Tensorflow_CXX11)",
        ONE_GLOO,
    ),
    Edit(
        "third_party/gloo/gloo/CMakeLists.txt",
        GLOO_LIBRARY,
        GLOO_LIBRARY + UNITY.format("gloo") + ALONE,
        GLOO_SOURCE,
    ),
    _unity(TF, "${TF_TARGET_LIB}", "mpi_lib"),
    _unity("horovod/torch/CMakeLists.txt", "${PYTORCH_TARGET_LIB}", "mpi_lib_v2"),
    *(
        Edit(
            f"horovod/torch/{file}",
            "#include <torch/extension.h>\n#include <torch/torch.h>\n",
            "#include <torch/csrc/utils/pybind.h>\n#include <torch/types.h>\n",
            FEWER_HEADERS,
        )
        for file in ("adapter_v2.h", "mpi_ops_v2.cc")
    ),
    Edit(
        "horovod/common/ops/cuda/CMakeLists.txt",
        "add_library(compatible_horovod_cuda_kernels cuda_kernels.cu)",
        "add_library(compatible_horovod_cuda_kernels EXCLUDE_FROM_ALL cuda_kernels.cu)",
        KERNELS,
    ),
)
