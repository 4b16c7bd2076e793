"""NVIDIA's GPUs, by the driver's own library (NVML API reference): no image has to bring a package.

`--nv` brings the library into a container. Each call may hang with a broken GPU, so only the
sampler's thread calls it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import ctypes

LIBRARY = "libnvidia-ml.so.1"
SUCCESS = 0
CLOCK_SM = 1  # nvmlClockType_t
LONGEST_NAME = 96  # NVML_DEVICE_UUID_V2_BUFFER_SIZE, NVML_DEVICE_NAME_V2_BUFFER_SIZE


@dataclass(frozen=True)
class GpuSample:
    """One look at a GPU: the share of time with a kernel running, bytes, watts and MHz."""

    use: float | None
    memory: int | None
    memory_total: int | None
    power: float | None
    clock: int | None
    clock_highest: int | None


class Nvml:
    """The GPUs that this process may use. Raises OSError where there is no library or no driver."""

    def __init__(self, env: Mapping[str, str], library: Any = None) -> None:
        import ctypes  # here, because small images lack it, and few jobs have GPUs

        self.ctypes = ctypes
        self.library = ctypes.CDLL(LIBRARY) if library is None else library
        if code := self.library.nvmlInit_v2():
            raise OSError(f"nvmlInit_v2 returned {code}")
        self.names: dict[str, str] = {}  # by UUID
        self.handles = {uuid: handle for uuid, handle in self._all() if self._is_ours(uuid, env)}

    def _all(self) -> list[tuple[str, ctypes.c_void_p]]:
        found = []
        for index in range(self._number("nvmlDeviceGetCount_v2") or 0):
            handle = self.ctypes.c_void_p()
            got = self.library.nvmlDeviceGetHandleByIndex_v2(index, self.ctypes.byref(handle))
            if got != SUCCESS:  # another job's, which its cgroup keeps away
                continue
            uuid = self._text("nvmlDeviceGetUUID", handle) or str(index)
            self.names[uuid] = self._text("nvmlDeviceGetName", handle)
            found.append((uuid, handle))
        return found

    def _is_ours(self, uuid: str, env: Mapping[str, str]) -> bool:
        """Whether CUDA_VISIBLE_DEVICES, if it is set, names the GPU by its place or its UUID."""
        if "CUDA_VISIBLE_DEVICES" not in env:
            return True
        place = list(self.names).index(uuid)
        wanted = [one.strip() for one in env["CUDA_VISIBLE_DEVICES"].split(",")]
        return any(one == str(place) or (one and uuid.startswith(one)) for one in wanted)

    def sample(self) -> dict[str, GpuSample]:
        """Return a look at each GPU, by UUID."""
        return {uuid: self._look(handle) for uuid, handle in self.handles.items()}

    def _look(self, handle: ctypes.c_void_p) -> GpuSample:
        use = self._numbers("nvmlDeviceGetUtilizationRates", handle, self.ctypes.c_uint, 2)
        memory = self._numbers("nvmlDeviceGetMemoryInfo", handle, self.ctypes.c_ulonglong, 3)
        power = self._number("nvmlDeviceGetPowerUsage", handle)
        return GpuSample(
            use=use[0] / 100 if use else None,
            memory=memory[2] if memory else None,
            memory_total=memory[0] if memory else None,
            power=None if power is None else power / 1000,
            clock=self._number("nvmlDeviceGetClockInfo", handle, CLOCK_SM),
            clock_highest=self._number("nvmlDeviceGetMaxClockInfo", handle, CLOCK_SM),
        )

    def _number(self, name: str, *arguments: Any) -> int | None:
        """Return the unsigned int that a function gives; None where it gives none."""
        value = self.ctypes.c_uint()
        got = getattr(self.library, name)(*arguments, self.ctypes.byref(value))
        return value.value if got == SUCCESS else None

    def _numbers(self, name: str, handle: Any, kind: Any, count: int) -> list[int] | None:
        """Return the members of a structure of equal numbers."""
        values = (kind * count)()
        got = getattr(self.library, name)(handle, self.ctypes.byref(values))
        return list(values) if got == SUCCESS else None

    def _text(self, name: str, handle: Any) -> str:
        buffer = self.ctypes.create_string_buffer(LONGEST_NAME)
        got = getattr(self.library, name)(handle, buffer, LONGEST_NAME)
        return buffer.value.decode("utf-8", "replace") if got == SUCCESS else ""
