"""Hands a framework to frameworks.py as soon as it has been imported, in whichever process.

Every Python of the job loads this at its start, so it imports nothing itself.
"""

import sys

HOOKS = {  # module -> the function of frameworks.py that wraps it
    "horovod.common.basics": "horovod",
    "torch.distributed.distributed_c10d": "torch",
    "tensorflow.python.distribute.collective_all_reduce_strategy": "tensorflow",
    "mpi4py.MPI": "mpi",
    "horovod.tensorflow": "tapes",
    "torch.optim.optimizer": "optimizers",
    "keras.src.optimizers.base_optimizer": "keras",
    "keras.src.optimizers.optimizer": "keras",  # of Keras 2
    "tf_keras.src.optimizers.optimizer": "keras",
}
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType
    from typing import Any, Callable, Optional


class Finder:
    """Finds what others find; `wrap` is called with the hook's name and the module of HOOKS."""

    def __init__(self, wrap: "Callable[[str, ModuleType], None]") -> None:
        self.wrap = wrap

    def install(self) -> None:
        sys.meta_path.insert(0, self)

    def find_spec(
        self,
        fullname: str,
        path: "Optional[Sequence[str]]",
        target: "Optional[ModuleType]" = None,
    ) -> "Optional[ModuleSpec]":
        """Give the modules of HOOKS, and no others, a loader that hands them on."""
        if fullname not in HOOKS:
            return None
        others = [finder for finder in sys.meta_path if finder is not self]
        found = (finder.find_spec(fullname, path, target) for finder in others)
        spec = next((one for one in found if one is not None), None)
        if spec is not None and spec.loader is not None:
            self._wrap_loader(HOOKS[fullname], spec.loader)
        return spec

    def _wrap_loader(self, hook: str, loader: "Any") -> None:
        load = loader.exec_module

        def exec_module(module: "ModuleType") -> None:
            load(module)
            self.wrap(hook, module)

        loader.exec_module = exec_module
