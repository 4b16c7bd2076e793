"""Python loads this module at its start wherever the folder is on PYTHONPATH (site, Python docs).

The shim puts it there for the processes that a trainer starts, so that the gate holds in them too.
"""

import importlib
import importlib.machinery
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))


def _module(name):  # type: ignore[no-untyped-def]
    code = os.path.dirname(os.path.dirname(os.path.dirname(HERE)))
    sys.path.insert(0, code)
    try:
        return importlib.import_module(name)
    finally:
        sys.path.remove(code)


def _gate() -> None:
    startup = _module("injob.injob.rank.startup")  # type: ignore[no-untyped-call]

    def wrap(hook, module):  # type: ignore[no-untyped-def]
        # By now the package is loaded, and knows its folder.
        importlib.import_module("injob.injob.rank.frameworks").wrap(hook, module)

    startup.begin(wrap)
    if os.environ.get("RUNNER_AGENT") == str(os.getppid()):  # a rank that torchrun has started
        importlib.import_module("injob.injob.rank.frameworks").watch_end()
    if startup.below_an_agent():
        _write_whole_lines()


def _write_whole_lines() -> None:
    """Undo torchrun's `python -u`, which writes a line in pieces: a node's ranks share one pipe."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # not None, as where it is closed
            stream.reconfigure(line_buffering=True, write_through=False)


def _others() -> None:
    """Load the sitecustomize that this one hides, if there is one."""
    path = [folder for folder in sys.path if os.path.abspath(folder or ".") != HERE]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", path)
    if spec is not None and spec.loader is not None:
        spec.loader.exec_module(sys.modules[__name__])


if "RUNNER_RANK_SETTINGS" in os.environ and sys.version_info >= (3, 7):
    _gate()
elif getattr(sys, "pycache_prefix", None) is not None:  # in a shell, or a command beside the ranks
    _module("injob.injob.rank.bytecode").use_beside_source()  # type: ignore[no-untyped-call]
_others()
