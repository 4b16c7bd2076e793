"""A launch without --image: which environment is meant, of modules or an active one."""

from __future__ import annotations

from pathlib import Path

import pytest

from runners.core.model import BY_MODULES, RuntimeName
from runners.images.facts import environment_facts
from runners.images.facts.environment_facts import LoadedModules

from .. import sentences
from ..programs import program

WITH, WITHOUT = {"torch.version": "2.13.0"}, {"torch.version": "none", "tensorflow.version": "none"}
MODULE = """\
module() {{ case "$1 $2" in 'use /more') MORE=1;; 'load torch') PATH="{0}/torch/bin:$PATH";;
'load python') PATH="{0}/plain/bin:$PATH";; 'load openmpi') test "$MORE";; *) false;; esac; }}
"""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Folders with a Python that does not run: `torch` and `active` have a framework."""
    for name in ("torch", "plain", "active", "bare"):
        for python in ("python", "python3"):
            program(tmp_path / name / "bin" / python, "")
    (tmp_path / ".bash_profile").write_text(MODULE.format(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))

    def of_path(environ: dict[str, str], where: str) -> dict[str, str]:
        return WITH if "/torch/" in where else WITHOUT

    def of_folder(folder: Path) -> dict[str, str]:
        return WITH if folder.name == "active" else WITHOUT

    monkeypatch.setattr(environment_facts, "probe_path", of_path)
    monkeypatch.setattr(environment_facts, "facts", of_folder)
    return tmp_path


@pytest.mark.parametrize(
    ("modules", "active", "runtime", "meant"),
    [
        ("torch", "", None, "torch"),
        ("torch", "active", None, "torch"),  # named before active
        ("python", "active", None, "active"),  # an environment made with a module's Python
        ("python", "bare", None, "plain"),
        ("python", "bare", RuntimeName.NONE, "bare"),
        ("", "active", None, "active"),
        ("", "bare", RuntimeName.NONE, "bare"),
    ],
)
def test_which_is_meant(
    home: Path, modules: str, active: str, runtime: RuntimeName | None, meant: str
) -> None:
    environ = {"HOME": str(home), "PATH": "/usr/bin:/bin"}
    if active:
        environ["CONDA_PREFIX"] = str(home / active)
    image = environment_facts.unnamed(LoadedModules(tuple(modules.split())), runtime, environ)
    assert image.path == home / meant
    by_modules = meant in ("torch", "plain")
    assert image.brought_by == (BY_MODULES if by_modules else "CONDA_PREFIX")


def test_none_is_meant(home: Path) -> None:
    environ = {"HOME": str(home), "PATH": "/usr/bin:/bin", "VIRTUAL_ENV": str(home / "bare")}
    with sentences.raises("image-not-given", "--image horovod_cpu.sif"):
        environment_facts.unnamed(LoadedModules(("openmpi",), ("/more",)), None, environ)
    with sentences.raises("module-not-loadable"):
        environment_facts.unnamed(LoadedModules(("openmpi",)), None, environ)
