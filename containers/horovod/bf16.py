"""Compression of gradients to bfloat16: goes into Horovod as horovod/common/bf16.py."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def compressor(fp16: Any, cast: Callable[[Any], Any]) -> Any:
    """Return a framework's compressor: that to float16 with another cast."""

    class BF16Compressor(fp16):  # type: ignore[misc]
        """Compress all floating point gradients to bfloat16."""

        @staticmethod
        def compress(tensor: Any) -> tuple[Any, Any]:
            """Cast the tensor to bfloat16; return it with its type."""
            of_16_bit, dtype = fp16.compress(tensor)
            return (tensor if of_16_bit is tensor else cast(tensor)), dtype

    return BF16Compressor
