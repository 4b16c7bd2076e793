"""Reads a folder of small files and the same as one squashfs file, over a wait and without.

Each time the slow folder is mounted afresh, so that the kernel has nothing of it. Prints
{case: [what read_all says]} as JSON.
"""

from __future__ import annotations

import argparse
import functools
import json
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ..rounds import interleaved

RUNNER = "/opt/runner/bin/runner"
HERE = Path(__file__).parent
FILES = "small", "small.sqsh"


def prepare(folder: Path, samples: int) -> Path:
    """Make the two forms of the data, unless they are there; return their folder."""
    data = folder / f"bench-data-{samples}"
    small, packed = (data / name for name in FILES)
    if not packed.exists():
        subprocess.run(["rm", "-rf", data], check=True)
        data.mkdir()
        asked = ["--samples", str(samples), "--size", "32"]
        _quietly(RUNNER, "data", "synth", "imagenet", str(small), *asked)
        _quietly(RUNNER, "data", "pack", str(small), "-o", str(packed))
    return data


def _quietly(*argv: str) -> None:
    subprocess.run(argv, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


@contextmanager
def slow(modules: str, folder: Path, wait: float) -> Iterator[Path]:
    """Yield the folder as it looks through a wait of so many seconds."""
    mountpoint = folder.with_name(folder.name + ".slow")
    mountpoint.mkdir(exist_ok=True)
    command = ["python3", str(HERE / "slow.py"), modules, str(folder), str(mountpoint), str(wait)]
    server = subprocess.Popen(command)
    try:
        deadline = time.monotonic() + 20
        while not (mountpoint / FILES[1]).exists():
            if server.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"{' '.join(command)} did not mount")
            time.sleep(0.05)
        yield mountpoint
    finally:
        subprocess.run(["fusermount3", "-u", str(mountpoint)], check=False)
        server.wait(20)
        mountpoint.rmdir()


def read(options: argparse.Namespace, folder: Path, name: str) -> dict[str, Any]:
    """Read one form of the data in a container, bound as `runner launch --data` binds it."""
    inner = ":image-src=/,ro" if name.endswith(".sqsh") else ":ro"
    bind = ["--bind", f"{folder / name}:/data{inner}", "--bind", f"{HERE}:{HERE}:ro"]
    program = ["python3", str(HERE / "read_all.py"), "/data", "2", str(options.readers)]
    argv = ["apptainer", "exec", *bind, options.image, *program]
    done = subprocess.run(argv, check=True, stdout=subprocess.PIPE, text=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def read_slowly(options: argparse.Namespace, folder: Path, name: str) -> dict[str, Any]:
    """The same through the wait."""
    with slow(options.modules, folder, options.wait) as place:
        return read(options, place, name)


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name, kind in (("samples", int), ("rounds", int), ("readers", int), ("wait", float)):
        parser.add_argument(f"--{name}", type=kind, required=True)
    for name in ("image", "folder", "modules"):
        parser.add_argument(f"--{name}", required=True)
    options = parser.parse_args()
    data = prepare(Path(options.folder), options.samples)
    cases = {}
    for name in FILES:
        cases[f"slow {name}"] = functools.partial(read_slowly, options, data, name)
        cases[f"near {name}"] = functools.partial(read, options, data, name)
    print(json.dumps(interleaved(cases, options.rounds)))


if __name__ == "__main__":
    main()
