"""Counts the collective operations of all ranks: an equal count is an equal moment.

An equal number of steps is not: a rank may warm up alone, or skip a batch. Some exchanges tell that
each rank has layers of its own.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Mapping
from types import ModuleType
from typing import Any, Callable

# Of pipelines and experts. What two ranks send each other is in Gloo's count of collectives too.
BETWEEN_TWO = ("send", "isend", "recv", "irecv", "batch_isend_irecv")
SENDING = ("send", "isend", "batch_isend_irecv", "all_to_all", "all_to_all_single")
IN_LAYERS = ("all_reduce", "all_gather", "all_gather_into_tensor", "reduce_scatter_tensor")
METRICS = 16  # values: as many that are sent, or integers, are metrics, and no layer's output
LOOKS = 64  # at calls of IN_LAYERS
# Of PyTorch's own, which exchange in forward passes though each rank has all layers
NOT_LAYERS = ("nn/modules/_functions.py", "nn/parallel/distributed.py")


class Exchanges:
    """The exchanges of one process.

    `others` is whether something else than torch.distributed and Horovod may average, `sent` what
    moved tensors from rank to rank, `layers` whether layers exchange what they compute.
    """

    def __init__(self) -> None:
        self.of_horovod, self.between_two, self.depth = 0, 0, 0
        self.counts, self.others = False, False
        self.sent, self.layers, self.looks = "", False, LOOKS
        self.core: Any = None
        self.known: Mapping[Any, Any] = {}  # all process groups
        self.numbers: list[Callable[[], int]] = []  # of those of all ranks
        self.groups = 0  # how many were known when they were looked for

    def count(self) -> int | None:
        """Return how many operations all ranks have made, None where that is unknown."""
        if len(self.known) != self.groups:
            self._look_for_groups()
        if not self.counts:
            return None if self.others else 0
        total = self.of_horovod - self.between_two
        for number in self.numbers:
            total += number()
        return total

    def _look_for_groups(self) -> None:
        """Find the process groups of all ranks; those of some ranks would count differently."""
        self.groups, backends = len(self.known), []
        for group in self.known:
            if len(self.core._world.pg_group_ranks[group]) == self.core.get_world_size():
                backends += [group._get_backend(device) for device in group._device_types]
        counters = {
            id(backend): backend._get_sequence_number_for_group for backend in backends
        }.values()
        try:
            for number in counters:
                number()
        except RuntimeError:  # such as MPI's, which has no such number
            self.numbers, self.others = [], True
        else:
            self.numbers = [*counters]
        self.counts = self.counts or bool(self.numbers)

    def watch_torch(self, module: Any) -> None:
        """Watch what torch.distributed sends, and what layers exchange."""
        self.core = module
        self.known = getattr(getattr(module, "_world", None), "pg_map", {})
        for name in {*BETWEEN_TWO, *SENDING, *IN_LAYERS}:
            if hasattr(module, name):
                self._watch(module, name)
        if hasattr(module, "destroy_process_group"):
            self._forget_groups_before(module)

    def _forget_groups_before(self, module: Any) -> None:
        """Forget the process groups that are about to be destroyed."""
        destroy = module.destroy_process_group

        @functools.wraps(destroy)
        def destroyed(*args: Any, **kwargs: Any) -> Any:
            self.groups, self.numbers = -1, []
            return destroy(*args, **kwargs)

        module.destroy_process_group = destroyed

    def _watch(self, module: ModuleType, name: str) -> None:
        act: Callable[..., Any] = getattr(module, name)
        look = self._look_at_layer if name in IN_LAYERS else self._look_at_sent
        count = name in BETWEEN_TWO

        @functools.wraps(act)
        def noted(*args: Any, **kwargs: Any) -> Any:
            look(name, (*args, *kwargs.values()))
            return self._counted(act, args, kwargs) if count else act(*args, **kwargs)

        setattr(module, name, noted)

    def _counted(self, act: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """Call an operation that two ranks make without the others."""
        self.depth += 1
        before = self.count() if self.depth == 1 else None
        try:
            return act(*args, **kwargs)
        finally:
            self.depth -= 1
            if before is not None and (after := self.count()) is not None:
                self.between_two += after - before

    def _look_at_sent(self, name: str, args: tuple[Any, ...]) -> None:
        if not self.sent and name in SENDING and is_of_layers(args):
            self.sent = f"ranks send each other tensors ({name})"

    def _look_at_layer(self, name: str, args: tuple[Any, ...]) -> None:
        if self.looks and not self.layers:
            self.looks -= 1
            self.layers = is_of_layers(args, 1) and in_layer(sys._getframe(2))

    def watch_horovod(self, module: Any) -> None:
        """Count Horovod's calls of synchronize(): one for each tensor."""
        self.counts, synchronize = True, module.synchronize

        @functools.wraps(synchronize)
        def noted(*args: Any, **kwargs: Any) -> Any:
            self.of_horovod += 1
            return synchronize(*args, **kwargs)

        module.synchronize = noted


def is_of_layers(values: Any, least: int = METRICS) -> bool:
    """Whether a layer may have computed one of the tensors: it has more than `least` fractions."""
    tensors = (getattr(value, "tensor", value) for value in values)  # a P2POp has a tensor
    return any(_is_of_layers(tensor, least) for tensor in tensors)


def _is_of_layers(value: Any, least: int) -> bool:
    if isinstance(value, (list, tuple)):
        return is_of_layers(value, least)
    if not hasattr(value, "is_floating_point") or value.numel() <= least:
        return False
    return bool(value.is_floating_point() or value.is_complex())


def in_layer(frame: Any) -> bool:
    """Whether a layer's forward pass, or a backward pass, is running."""
    torch: Any = sys.modules["torch"]
    backward = torch._C._current_graph_task_id() != -1
    contexts = torch.autograd.function.FunctionCtx
    forward = False
    while frame is not None:
        code = frame.f_code
        if code.co_filename.endswith(NOT_LAYERS):
            return False
        if code.co_name == "forward" and code.co_argcount:
            first = frame.f_locals.get(code.co_varnames[0])
            forward = forward or isinstance(first, (torch.nn.Module, contexts))
        frame = frame.f_back
    return bool(backward or forward)
