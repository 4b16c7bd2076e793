"""Edits for more types of data: bfloat16 wherever float16 is, and 8-bit integers in reductions.

bfloat16 repeats what another type has. What computes repeats float32 or float64 for the C++ type
of bfloat16.h, which behaves like a float; what only names types repeats float16.
"""

from __future__ import annotations

from pathlib import Path

from containers.horovod.edit import Edit, NewFile, Repeat

BFLOAT16 = "bfloat16 is what most models are trained in (asked for upstream in horovod#4047)"
INT8 = "MPI, Gloo and NCCL reduce 8-bit integers, but nothing offered them to PyTorch"

COMMON, OPS = "horovod/common", "horovod/common/ops"
WIRE = f"{COMMON}/wire/message_generated.h"
MPI = f"{COMMON}/mpi/mpi_context.cc"
TORCH, TORCH_TENSOR = "horovod/torch/mpi_ops_v2.cc", "horovod/torch/adapter_v2.cc"
TENSORFLOW = "horovod/tensorflow/mpi_ops.cc"

CASE, NEXT_CASE = "case HOROVOD_FLOAT16:", "case HOROVOD_FLOAT32:"
FLOAT_CASE, NEXT_FLOAT_CASE = "case HOROVOD_FLOAT32:", "case HOROVOD_FLOAT64:"
ENUM, NAME = ("FLOAT16", "BFLOAT16"), ("float16", "bfloat16")
FROM_FLOAT = (("FLOAT32", "BFLOAT16"), ("float*", "bfloat16*"))
FROM_DOUBLE = (("FLOAT64", "BFLOAT16"), ("double*", "bfloat16*"))


def include(file: str, after: str, header: str) -> Edit:
    """Return the edit that includes bfloat16.h after another header."""
    line = f"#include {after}\n"
    return Edit(file, line, f'{line}#include "{header}"\n', BFLOAT16)


def repeat_case(file: str, name: tuple[str, str]) -> Repeat:
    """Return the edit that repeats the case of float16 in a switch over Horovod's types."""
    return Repeat(file, CASE, NEXT_CASE, (ENUM, name), BFLOAT16)


TYPE = (
    NewFile(
        f"{COMMON}/bfloat16.h",
        Path(__file__).with_name("bfloat16.h").read_text(encoding="utf-8"),
        BFLOAT16,
    ),
    Edit(
        f"{COMMON}/message.h",
        "  HOROVOD_BOOL = 9,\n",
        "  HOROVOD_BOOL = 9,\n  HOROVOD_BFLOAT16 = 10,\n",
        BFLOAT16,
    ),
    Repeat(f"{COMMON}/message.cc", f"{CASE}\n      static", NEXT_CASE, (ENUM, NAME), BFLOAT16),
    Repeat(f"{COMMON}/message.cc", f"{CASE}\n      return", NEXT_CASE, (ENUM,), BFLOAT16),
    Edit(
        WIRE,
        "_BOOL = 9,\n  DataType_MIN",
        "_BOOL = 9,\n  DataType_HOROVOD_BFLOAT16 = 10,\n  DataType_MIN",
        BFLOAT16,
    ),
    Edit(WIRE, "MAX = DataType_HOROVOD_BOOL", "MAX = DataType_HOROVOD_BFLOAT16", BFLOAT16),
    Edit(WIRE, "EnumValuesDataType())[10]", "EnumValuesDataType())[11]", BFLOAT16),
    Edit(
        WIRE,
        "_BOOL\n  };",
        "_BOOL,\n    DataType_HOROVOD_BFLOAT16\n  };",
        BFLOAT16,
    ),
    Edit(WIRE, 'names[11] = {\n    "HOROVOD', 'names[12] = {\n    "HOROVOD', BFLOAT16),
    Edit(WIRE, '"HOROVOD_BOOL",\n', '"HOROVOD_BOOL",\n    "HOROVOD_BFLOAT16",\n', BFLOAT16),
    Edit(WIRE, "UINT8, DataType_HOROVOD_BOOL)", "UINT8, DataType_HOROVOD_BFLOAT16)", BFLOAT16),
)
OPERATIONS = (
    include(f"{OPS}/collective_operations.h", '"../half.h"', "../bfloat16.h"),
    Repeat(f"{OPS}/collective_operations.cc", FLOAT_CASE, NEXT_FLOAT_CASE, FROM_FLOAT, BFLOAT16),
    repeat_case(f"{OPS}/gloo_operations.cc", ("gloo::float16", "bfloat16")),
    repeat_case(f"{OPS}/nccl_operations.cc", ("Float16", "Bfloat16")),
    include(f"{OPS}/cuda/cuda_kernels.cu", "<cuda_fp16.h>", "../../bfloat16.h"),
    Repeat(
        f"{OPS}/cuda/cuda_kernels.cu",
        f"{FLOAT_CASE}\n      scale",
        NEXT_FLOAT_CASE,
        FROM_FLOAT,
        BFLOAT16,
    ),
    Repeat(
        f"{OPS}/cuda/cuda_kernels.cu",
        f"{FLOAT_CASE}\n     batched",
        NEXT_FLOAT_CASE,
        (("FLOAT32", "BFLOAT16"), ("<float,", "<bfloat16,")),
        BFLOAT16,
    ),
    include(f"{OPS}/adasum/adasum.h", '"../../common.h"', "../../bfloat16.h"),
    Repeat(
        f"{OPS}/adasum/adasum.h",
        "case DataType::HOROVOD_FLOAT64:",
        "default:",
        FROM_DOUBLE,
        BFLOAT16,
    ),
    Repeat(
        f"{OPS}/adasum/adasum.h",
        "    } else if (horovod_datatype == DataType::HOROVOD_FLOAT64) {",
        "    } else {",
        FROM_DOUBLE,
        BFLOAT16,
        count=2,
    ),
)
OPERATIONS_OF_MPI = (
    Repeat(
        f"{COMMON}/mpi/mpi_context.h",
        "  // MPI custom data type for float16.",
        "  // Private MPI communicator",
        (NAME,),
        BFLOAT16,
    ),
    include(MPI, '"../half.h"', "../bfloat16.h"),
    repeat_case(MPI, NAME),
    Repeat(MPI, "dtype == HOROVOD_FLOAT16 ?", "MPI_", (ENUM, NAME), BFLOAT16, count=4),
    Repeat(
        MPI,
        "void CreateMPIFloat16TypeAndOps(",
        "void CreateMPILocalAndCrossComm(",
        (NAME, ("Float16", "Bfloat16")),
        BFLOAT16,
    ),
    Repeat(
        MPI,
        "  CreateMPIFloat16TypeAndOps(mpi_",
        "}",
        (NAME, ("Float16", "Bfloat16")),
        BFLOAT16,
        count=2,
    ),
    Repeat(MPI, "  if (mpi_float16_t != MPI_DATATYPE_NULL)", "}\n\nvoid", (NAME,), BFLOAT16),
)


def repeat_registrations(operation: str, original: str, following: str, new: str) -> list[Repeat]:
    """Return the edits that register an operation's function of one type for another, too."""
    why = BFLOAT16 if original == "Half" else INT8
    return [
        Repeat(
            TORCH,
            f'  m.def("horovod_torch_{operation}_async_torch_{device}{original}Tensor"',
            f'  m.def("horovod_torch_{operation}_async_torch_{device}{following}Tensor"',
            ((original, new),),
            why,
            count,
        )
        for device, count in (("", 1), ("cuda_", 2))  # CUDA's: with and without NCCL
    ]


REDUCTIONS = ("allreduce", "grouped_allreduce", "reducescatter", "grouped_reducescatter")
OTHERS = ("allgather", "grouped_allgather", "broadcast", "alltoall")
COMPRESSION = '''\
    fp16 = FP16Compressor

    """Compress all floating point gradients to bfloat16."""
    bf16 = BF16Compressor
'''
FRAMEWORKS = (
    Repeat(
        TORCH_TENSOR,
        "case common::HOROVOD_FLOAT16:",
        "case common::HOROVOD_FLOAT32:",
        (ENUM, ("kHalf", "kBFloat16")),
        BFLOAT16,
    ),
    Repeat(
        TORCH_TENSOR,
        "case ::torch::kHalf:",
        "case ::torch::kFloat:",
        (ENUM, ("kHalf", "kBFloat16")),
        BFLOAT16,
    ),
    *(
        edit
        for operation in (*REDUCTIONS, *OTHERS)
        for edit in repeat_registrations(operation, "Half", "Float", "BFloat16")
    ),
    *(
        edit
        for operation in REDUCTIONS
        for new in ("Byte", "Char")
        for edit in repeat_registrations(operation, "Int", "Long", new)
    ),
    Repeat(
        TENSORFLOW,
        "case common::HOROVOD_FLOAT16:",
        "case common::HOROVOD_FLOAT32:",
        (ENUM, ("HALF", "BFLOAT16")),
        BFLOAT16,
    ),
    Repeat(
        TENSORFLOW,
        "case DT_HALF:",
        "case DT_FLOAT:",
        (("HALF", "BFLOAT16"), ("HOROVOD_FLOAT16", "HOROVOD_BFLOAT16")),
        BFLOAT16,
    ),
    Repeat(
        TENSORFLOW,
        "        PROCESS_CASE(DT_HALF,",
        "        PROCESS_CASE(DT_FLOAT,",
        (("HALF", "BFLOAT16"), ("half", "bfloat16")),
        BFLOAT16,
    ),
    Edit(TENSORFLOW, "int64, float16,", "int64, float16, bfloat16,", BFLOAT16, count=9),
    *(
        edit
        for framework in ("torch", "tensorflow")
        for edit in (
            Repeat(
                f"horovod/{framework}/compression.py",
                "class FP16Compressor(",
                "class Compression(",
                (("FP16", "BF16"), NAME, ("16-bit", "bfloat16")),
                BFLOAT16,
            ),
            Edit(
                f"horovod/{framework}/compression.py",
                "    fp16 = FP16Compressor\n",
                COMPRESSION,
                BFLOAT16,
            ),
        )
    ),
)
EDITS = (*TYPE, *OPERATIONS, *OPERATIONS_OF_MPI, *FRAMEWORKS)
