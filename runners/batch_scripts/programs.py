"""The programs that batch scripts start: launchers, containers, agents, and those that help."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from .options import Grammar

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

FILE = Path(__file__).with_name("programs.toml")
TABLES: dict[str, dict[str, Any]] = tomllib.loads(FILE.read_text(encoding="utf-8"))
GRAMMARS = {name: Grammar(**table) for name, table in TABLES["options"].items()}
MPIRUNS = ("mpirun", "mpiexec", "mpiexec.hydra", "orterun", "aprun", "ibrun")
STARTERS = {name: GRAMMARS[name] for name in ("srun", "horovodrun")}
STARTERS |= dict.fromkeys(MPIRUNS, GRAMMARS["mpirun"])
APPTAINER = ("apptainer", "singularity", "apptainer_wrapper", "singularity_wrapper")
CONTAINERS = {name: GRAMMARS[name] for name in ("apptainer", "shifter", "podman")}
CONTAINERS |= dict.fromkeys(APPTAINER, GRAMMARS["apptainer"])
CONTAINERS |= {"podman-hpc": GRAMMARS["podman"]}
AGENTS = {name: GRAMMARS[name] for name in ("torchrun", "accelerate", "deepspeed")}
TORCHRUNS = ("torchrun_jsc", "torch.distributed.run", "torch.distributed.launch")
AGENTS |= dict.fromkeys(TORCHRUNS, GRAMMARS["torchrun"])
# Modules that start an agent.
LAUNCHERS = {
    "accelerate.commands.launch": "accelerate",
    "deepspeed.launcher.runner": "deepspeed",
}
OF_DIRECTIVE = "<image of the directive>"
# Variables that runner sets itself on each rank.
PLACE = (
    *("MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE", "RANK", "LOCAL_RANK", "LOCAL_WORLD_SIZE"),
    *("NODE_RANK", "GROUP_RANK", "NNODES", "NUM_NODES", "NPROC_PER_NODE", "GPUS_PER_NODE"),
)
SHELLS = ("bash", "sh", "zsh", "dash")
# Programs before a command that change nothing of what it does.
BEFORE = ("time", "exec", "nohup", "command", "eval", "unbuffer", "builtin")
WITH_OPTIONS = {name: GRAMMARS[name] for name in ("nice", "stdbuf", "env")}
# Programs whose `run` starts a command in an environment.
RUNNING = dict.fromkeys(("conda", "mamba", "micromamba"), GRAMMARS["conda"])
RUNNING |= {"uv": GRAMMARS["uv"]}
# Python's modules that prepare.
TOOLS = ("pip", "venv", "virtualenv", "ensurepip", "build", "json.tool", "site")


def names(text: str) -> frozenset[str]:
    return frozenset(text.split())


NAMES = {name: names(text) for name, text in TABLES["names"].items()}
LOOKING, FILTERS, SAID = NAMES["looking"], NAMES["filters"], NAMES["said"]
CLUSTERS, WRAPPERS = NAMES["clusters"], NAMES["wrappers"]
HELPERS, PREPARING = FILTERS | CLUSTERS | NAMES["helpers"], SAID | NAMES["preparing"]
OF_SHELL = NAMES["of_shell"]


def is_python(text: str) -> bool:
    name = text.rpartition("/")[2]
    return name.startswith("python") and not name[len("python") :].strip("0123456789.")
