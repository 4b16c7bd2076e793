"""`runner convert`: between Dockerfile and definition; a batch script becomes a launch line.

An add-on of `runner`. It imports the rooms of the kit that its README lists, which have these names
in the kit's versions `NEEDS`.
"""

from __future__ import annotations

from runners.core.version import __version__ as kit_version

NEEDS = "0.1"  # the first two numbers of the kit's version

if kit_version.split(".")[:2] != NEEDS.split("."):
    raise ImportError(f"it is made for horovod-runner {NEEDS}, and here is {kit_version}")
