"""Whether what lies in a run's folder is whole, as a reader would find it."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from runners.core.job_record import JobPaths
from runners.injob.rank.rendezvous.connections import NAME as RENDEZVOUS


def problems(root: Path) -> list[str]:
    """Return what is half-written in a run's folder; nothing when all is whole."""
    paths = JobPaths(root)
    found = [f"{path.name} is left" for path in root.rglob("*.part*")]
    # A rank that waits for rank 0's addresses makes their file, empty until rank 0 writes it.
    waits = [path for path in root.glob(RENDEZVOUS) if not path.stat().st_size]
    files = [
        *(path for path in root.glob("*.json") if path not in waits),
        *paths.failures.glob("*.json"),
        *paths.checkpoints.glob("*.json"),
    ]
    found += [f"{path.name} is no JSON" for path in files if not _is_json(path.read_text())]
    lines = _text(root / "metrics.jsonl").splitlines()
    found += [
        f"metrics.jsonl:{n} is no JSON" for n, line in enumerate(lines, 1) if not _is_json(line)
    ]
    return found + [
        problem for path in paths.checkpoints.glob("*.json") for problem in _check(path)
    ]


def digest(root: Path) -> str:
    """A checksum of all files below a folder, names included."""
    total = hashlib.sha256()
    for path in sorted(path for path in root.rglob("*") if path.is_file()):
        total.update(f"{path.relative_to(root)}\0".encode() + path.read_bytes())
    return total.hexdigest()


def _text(path: Path) -> str:
    return path.read_text() if path.exists() else ""


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


def _check(manifest: Path) -> list[str]:
    """A checkpoint is there once it has its manifest, and then it is whole."""
    payload = manifest.with_suffix(".ckpt")
    if not payload.exists():
        return [f"{payload.name} is lost"]
    expected = json.loads(manifest.read_text())["sha256"]
    right = hashlib.sha256(payload.read_bytes()).hexdigest() == expected
    return [] if right else [f"{payload.name} is damaged"]
