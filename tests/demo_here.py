"""The demo where there can be no test cluster (`make demo-here`): two ranks on this machine.

Nothing of it needs root, Slurm or Apptainer: PyTorch comes from the package index into an
environment in the cache, and `runner` starts the ranks itself.
"""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from pathlib import Path

from containers import image_catalogue, lockfile
from runners.core.digest import key

PACKAGES = ("numpy", "scikit-learn")
LAUNCH = ("--scheduler", "local", "--runtime", "none", "--ntasks", "2", "--cpus-per-task", "1")
TRAINER = ("--follow", "torch_mnist", "--", "--exchange", "ddp", "--epochs", "8")
AFTERWARDS = """\

Two ranks trained one model on this machine, with PyTorch's DDP. What was left out, and needs more:
  Horovod, the container image and a Slurm cluster of two nodes   make demo, as root on Debian
  a cluster on which you have an account                          docs/guides/sites.md"""


def requirements() -> list[list[str]]:
    """Return what to ask pip for, best first: PyTorch without CUDA is a tenth of its download."""
    pins = {
        pin.name: pin.version for pin in lockfile.read(image_catalogue.HERE / "horovod_cpu.lock")
    }
    others = [f"{name}=={pins[name]}" for name in PACKAGES]
    torch = pins["torch"]
    return [[f"torch=={torch}", *others], [f"torch=={torch.partition('+')[0]}", *others]]


def environment() -> Path:
    """Return the folder of the environment, made when it is not there yet."""
    wanted = requirements()
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "horovod-runner"
    name = key(python=sys.version, packages=" ".join(wanted[0]))
    folder = Path(os.environ.get("RUNNER_CACHE") or cache) / "environments" / f"demo-{name}"
    if (folder / ".ready").exists():
        return folder
    print("PyTorch comes from the package index, once ...", flush=True)
    venv.create(folder, with_pip=True, clear=True)
    install = [
        str(folder / "bin/python3"),
        "-m",
        "pip",
        "install",
        "--quiet",
        "--only-binary=:all:",
    ]
    for words in wanted:  # an index without the first has the second: that is no error yet
        done = subprocess.run([*install, *words], stderr=subprocess.PIPE, text=True)
        if done.returncode == 0:
            break
    else:
        raise SystemExit(f"{done.stderr}error: PyTorch could not be installed; the reason is above")
    (folder / ".ready").touch()
    return folder


def main() -> int:
    """Train, and say what the demo on a cluster shows beyond it."""
    words = ["launch", "--image", str(environment()), *LAUNCH, *TRAINER]
    print(f"$ runner {' '.join(words)}", flush=True)
    code = subprocess.run([sys.executable, "-m", "runners", *words]).returncode
    if code == 0:
        print(AFTERWARDS)
    return code


if __name__ == "__main__":
    sys.exit(main())
