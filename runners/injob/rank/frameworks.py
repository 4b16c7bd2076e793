"""Wraps what initializes the process group in each framework, to notify the gate."""

from __future__ import annotations

import atexit
import contextlib
import functools
import json
import os
import sys
import time
from types import ModuleType
from typing import Any, Callable, NoReturn

from ...contract.enums import ProcessGroup
from . import startup
from .gate import GLOO_WITH_GPUS, Gate
from .gate_settings import GateSettings

Checks = Callable[..., None]
SECONDS_TO_THE_END = 60  # that TensorFlow's ranks wait for each other
# Gloo's thread may still hold the tensors of the last exchange as the trainer ends. To let go of
# them it needs Python, which ends it there if Python is ending too: "terminate called without an
# active exception", SIGABRT, of a rank that had done all its work (PyTorch 2.13, issue 190489).
SECONDS_TO_LET_GO = 0.3


@functools.lru_cache(maxsize=1)
def gate() -> Gate:
    return Gate(GateSettings.read())


def wrap(hook: str, module: ModuleType) -> None:
    """Wrap the functions of a newly imported module that create process groups or make steps."""
    WRAPPERS[hook](module)


def watch_end() -> None:
    """Fail a rank of torchrun or another agent that ends well without a process group.

    The others would wait for it, half an hour by PyTorch's default.
    """
    failed: list[Any] = []
    exit, excepthook = sys.exit, sys.excepthook

    def noted_exit(code: Any = None) -> NoReturn:
        if code not in (None, 0):
            failed.append(code)
        exit(code)

    def noted_excepthook(*about: Any) -> None:
        failed.append(about)
        excepthook(*about)

    sys.exit, sys.excepthook = noted_exit, noted_excepthook
    atexit.register(lambda: None if failed else gate().left())


def _nothing(*args: Any, **kwargs: Any) -> None:
    pass


def _around(owner: Any, name: str, before: Checks = _nothing, after: Checks = _nothing) -> None:
    """Call `before` and `after` around a function, with its arguments."""
    act = getattr(owner, name)

    @functools.wraps(act)
    def checked(*args: Any, **kwargs: Any) -> Any:
        before(*args, **kwargs)
        result = act(*args, **kwargs)
        after(*args, **kwargs)
        return result

    setattr(owner, name, checked)


def _horovod(module: Any) -> None:
    """Wrap HorovodBasics.init, through which every framework's hvd.init() goes (0.19 to 0.28)."""

    def before(*args: Any, **kwargs: Any) -> None:
        gate().called(ProcessGroup.HOROVOD)
        gate().meet()

    def after(this: Any, *args: Any, **kwargs: Any) -> None:
        # A caller that names a communicator wants a part of the world on purpose.
        on_purpose = bool(args) or kwargs.get("comm") is not None
        gate().formed(ProcessGroup.HOROVOD, this.size(), this.rank(), part=on_purpose)

    _around(module.HorovodBasics, "init", before, after)
    _report_weights_before(module.HorovodBasics, "shutdown")


def _torch(module: Any) -> None:
    """Wrap init_process_group, which DDP, FSDP, Lightning, accelerate and DeepSpeed call."""

    def after(*args: Any, **kwargs: Any) -> None:
        backend = module.get_backend()
        gate().formed(ProcessGroup.TORCH, module.get_world_size(), module.get_rank(), backend)
        if "gloo" in backend:
            atexit.register(time.sleep, SECONDS_TO_LET_GO)
        if backend == "gloo" and gate().settings.gpus and module.get_rank() == 0:
            print(GLOO_WITH_GPUS, flush=True)

    _around(module, "init_process_group", lambda *_, **__: gate().called(ProcessGroup.TORCH), after)
    _report_weights_before(module, "destroy_process_group")
    gate().exchanges.watch_torch(module)


def _report_weights_before(owner: Any, name: str) -> None:
    """Report the last weights before a function ends the process group, or the process."""
    if hasattr(owner, name):
        _around(owner, name, lambda *_, **__: gate().report_last_weights())


def _let_differ(owner: Any, name: str, reason: str) -> None:
    """Allow different weights once a function has been called."""

    def before(*args: Any, **kwargs: Any) -> None:
        gate().may_differ = reason

    _around(owner, name, before)


def _watch(watch: Any) -> None:
    """Report the last weights however this process ends: trainers call os._exit too."""
    if not gate().watches:
        atexit.register(gate().report_last_weights)
        _report_weights_before(os, "_exit")
    gate().watches.append(watch)


def _optimizers(module: ModuleType) -> None:
    """Count the steps of PyTorch's optimizers, and watch what they make of the weights."""
    startup.count_steps(module)
    if gate().settings.check:
        from ..one_model.watch_torch import Watch  # here, because few processes train

        _watch(Watch(sys.modules["torch"], gate().exchanges, gate().report_weights))


def _horovod_torch(module: Any) -> None:
    gate().exchanges.watch_horovod(module)


def _tapes(module: Any) -> None:
    """Notice variables that Horovod's tapes leave to each rank."""
    tape = getattr(module, "_DistributedGradientTape", None)
    if hasattr(tape, "register_local_source"):
        reason = "a tape has variables that are local to a rank (register_local_source)"
        _let_differ(tape, "register_local_source", reason)


def _keras(module: Any) -> None:
    """Watch which variables Keras' optimizers train."""
    owner = getattr(module, "BaseOptimizer", None) or getattr(module, "_BaseOptimizer", None)
    if not gate().settings.check or owner is None:
        return
    _around(owner, "build", _keras_watch().built)


def _gradient_tapes(module: Any) -> None:
    """Watch which variables are trained by tapes, without an optimizer."""
    if gate().settings.check:
        _around(module.GradientTape, "gradient", _keras_watch().asked)


@functools.lru_cache(maxsize=1)
def _keras_watch() -> Any:
    """Return the one watch of this process, whichever versions of Keras it imports."""
    from ..one_model.watch_keras import Watch  # here, because few processes train

    watch = Watch(gate().report_weights)
    _watch(watch)
    return watch


def _tensorflow(module: Any) -> None:
    """Wrap the start of MultiWorkerMirroredStrategy (TensorFlow 2.4 and later)."""

    def before(this: Any, cluster_resolver: Any, *args: Any, **kwargs: Any) -> None:
        gate().called(ProcessGroup.TENSORFLOW)
        if type(cluster_resolver).__name__ == "TFConfigClusterResolver":
            _check_tf_config(os.environ.get("TF_CONFIG", "{}"))

    def after(this: Any, *args: Any, **kwargs: Any) -> None:
        gate().formed(
            ProcessGroup.TENSORFLOW, this._num_workers, getattr(this, "_task_id", None) or 0
        )
        if this._num_workers > 1:
            gate().at_end.append(_end_together)

    _around(module.CollectiveAllReduceExtended, "_initialize_strategy", before, after)


def _end_together() -> None:
    """Wait until the other ranks of TensorFlow's world have come to their end, or a minute.

    One rank may finish the last collective before another has fetched its part, which then fails
    as this one ends: "UnavailableError: recvmsg:Connection reset by peer" (TensorFlow 2.21).
    """
    eager = sys.modules.get("tensorflow.python.eager.context")
    context: Any = eager.context() if eager else None
    # Older ones have no such service.
    if getattr(context, "coordination_service", None) and hasattr(context, "wait_at_barrier"):
        # Whatever comes of it, this rank's work is done: the first one's end cuts off the others.
        with contextlib.suppress(Exception):
            context.wait_at_barrier("runner: end of the trainer", SECONDS_TO_THE_END * 1000)


def _check_tf_config(text: str) -> None:
    """Refuse a TF_CONFIG that is the same on all ranks, before they wait for each other."""
    settings = gate().settings
    try:
        config = json.loads(text)
        workers = sum(len(config["cluster"].get(kind, ())) for kind in ("chief", "worker"))
        index = int(config["task"]["index"]) + (
            config["task"]["type"] == "worker" and "chief" in config["cluster"]
        )
    except (ValueError, KeyError, TypeError, AttributeError):
        return  # none, or one that TensorFlow itself will not take
    right = settings.ranks
    if settings.check and (workers != right or index != settings.task.rank):
        why = f"TF_CONFIG names {workers} workers, and makes this rank number {index}"
        gate().refuse(ProcessGroup.TENSORFLOW, workers, index, right, why)


def _mpi(module: Any) -> None:
    """Check mpi4py's COMM_WORLD, after the import or later."""
    if module.Is_initialized():
        _check_mpi(module)
        return
    for name in ("Init", "Init_thread"):
        _around(module, name, after=lambda *_, **__: _check_mpi(module))


def _check_mpi(module: Any) -> None:
    size = module.COMM_WORLD.Get_size()
    if size == 1 and gate().settings.ranks > 1:
        gate().alone(ProcessGroup.MPI)
    else:
        gate().formed(ProcessGroup.MPI, size, module.COMM_WORLD.Get_rank())


WRAPPERS: dict[str, Callable[[Any], None]] = {
    "horovod": _horovod,
    "torch": _torch,
    "tensorflow": _tensorflow,
    "mpi": _mpi,
    "optimizers": _optimizers,
    "horovod_torch": _horovod_torch,
    "keras": _keras,
    "gradient_tapes": _gradient_tapes,
    "tapes": _tapes,
}
