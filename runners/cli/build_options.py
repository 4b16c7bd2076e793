"""Options of `runner build` that not everything it builds takes: they are refused or passed on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from containers import pip

from ..core.errors import UsageError

PACKAGES = ("wheelhouse", "index_url", "extra_index_url")
OF_OURS = ("base", "frozen")
OF_BASES = ("origin", "requirements", "def_file", "given", "horovod")  # of an image of others
OF_ENVIRONMENTS = ("into", "mpi", "module")
DEFAULTS = {"base": "auto"}
PATHS = {
    "requirements": "--requirements",
    "def_file": "--def",
    "ca": "--ca-certificate",
    "wheelhouse": "--wheelhouse",
}
TEXTS = {"index_url": "--index-url", "extra_index_url": "--extra-index-url"}


def source(values: Mapping[str, Any]) -> pip.Source:
    """Return where packages come from."""
    return pip.Source.given(*(values[name] for name in PACKAGES))


def refuse(values: Mapping[str, Any], names: tuple[str, ...], why: str) -> None:
    """Raise UsageError for options that were given and would not be heard."""
    for name in names:
        if values[name] and values[name] != DEFAULTS.get(name):
            raise UsageError(f"--{name.replace('_', '-')} {why}")


def passed_on(values: Mapping[str, Any], renamed: Callable[[str], str]) -> list[str]:
    """The options that were given, for the same command where files have other names."""
    words = [f"{name}={renamed(values[key])}" for key, name in PATHS.items() if values[key]]
    words += [f"{name}={values[key]}" for key, name in TEXTS.items() if values[key]]
    words += ["--horovod"] if values["horovod"] else []
    return words + [f"--build-arg={name}={text}" for name, text in values["given"].items()]
