"""Checkpoints on disk: `step-00000123.ckpt` and its manifest, `step-00000123.json`.

The manifest is written last and has the checkpoint's SHA-256: without it, or with another one,
there is no checkpoint. Only rank 0 calls these functions. A checkpoint that all ranks have written
together is a folder of that name. Standard library only.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
import time
from argparse import Namespace
from collections.abc import Callable, Iterable
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Union

from recipes.distributed import UserError

FORMAT_VERSION = 2  # of manifests, one more whenever other trainers could not read them
Manifest = dict[str, Any]
Payload = Union[bytes, Path]  # of a folder its path, for every rank to read


def now() -> str:
    return datetime.now(timezone.utc).isoformat(timespec="milliseconds")


def signature(shapes: Iterable[tuple[str, Any]]) -> str:
    """Return a checksum of the names and shapes of a model's weights."""
    text = "\n".join(f"{name} {tuple(shape)}" for name, shape in shapes)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def write_atomically(path: Path, data: bytes) -> None:
    """Write a file beside `path` and rename it: nobody reads half of it. Raises OSError."""
    part = path.with_name(f".{path.name}.part")
    try:
        with part.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def write_json(path: Path, value: Any) -> None:
    """Write JSON atomically; raise ValueError for a number that is not finite."""
    write_atomically(path, (json.dumps(value, indent=2, allow_nan=False) + "\n").encode())


def append(path: Path, line: dict[str, Any]) -> None:
    """Append a whole line of JSON, or nothing: then raise OSError."""
    text = json.dumps({**line, "time": now()}, allow_nan=False) + "\n"
    with path.open("ab", buffering=0) as stream:
        end = stream.tell()
        if stream.write(text.encode()) < len(text):  # a disk that gets full takes a part
            stream.truncate(end)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def keep_lines(path: Path, step: int, epoch: int) -> None:
    """Keep the lines of metrics.jsonl that a checkpoint has: the later ones will come again."""

    def kept(line: str) -> bool:
        try:
            value = json.loads(line)
            later = value["event"] == "epoch" and value["epoch"] >= epoch
            return bool(value["step"] <= step and not later)
        except (ValueError, KeyError, TypeError):
            return False  # truncated

    lines = path.read_text("utf-8").splitlines(keepends=True) if path.exists() else []
    write_atomically(path, "".join(filter(kept, lines)).encode())


def manifest(run: Any, loss_sum: float) -> Manifest:
    """Return what a checkpoint of a run has besides its payload; `loss_sum` is all ranks'."""
    return {
        "trainer": run.trainer,
        "signature": run.signature,
        "step": run.step,
        "epoch": run.epoch,
        "taken": run.taken,
        "loss_sum": loss_sum,
        "seconds": run.seconds + (time.perf_counter() - run.epoch_began if run.taken else 0),
        "data_seconds": run.data_seconds,
        "count": run.shards.count,
        "seed": run.args.seed,
        "ranks": run.ranks.size,
        "history": run.history,
        "resumed_at_steps": run.resumed_at_steps,
        "arguments": vars(run.args),
        "versions": run.versions,
    }


def digest(path: Path) -> tuple[str, int]:
    """Return the SHA-256 and the size of a file, or of the files of a folder."""
    total, size = hashlib.sha256(), 0
    for part in sorted(path.iterdir()) if path.is_dir() else [path]:
        total.update(part.name.encode() if path.is_dir() else b"")
        with part.open("rb") as file:
            while block := file.read(1 << 20):
                total.update(block)
                size += len(block)
    return total.hexdigest(), size


def remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    path.unlink(missing_ok=True)


def save(path: Path, payload: Payload, manifest: Manifest, keep: int) -> None:
    """Save a checkpoint, then remove those of this trainer beyond the newest `keep`.

    Raises OSError.
    """
    path.with_suffix(".json").unlink(missing_ok=True)  # of the checkpoint that this one replaces
    remove(path)
    if isinstance(payload, Path):
        payload.rename(path)
    else:
        write_atomically(path, payload)
    sha256, size = digest(path)
    whole = {"form": FORMAT_VERSION, **manifest, "sha256": sha256, "bytes": size, "time": now()}
    write_json(path.with_suffix(".json"), whole)
    for old in sorted(path.parent.glob("step-*.json"), reverse=True)[keep:]:
        if _trainer(old) == manifest["trainer"]:
            old.unlink()
            remove(old.with_suffix(".ckpt"))


def _trainer(path: Path) -> Any:
    try:
        return json.loads(path.read_text("utf-8"))["trainer"]
    except (OSError, ValueError, KeyError, TypeError):
        return None  # not ours to remove


def load(
    manifest_path: Path, trainer: str, signature: str | None = None
) -> tuple[Manifest, Payload]:
    """Return manifest and payload of a checkpoint; raise `UserError` that names its fault.

    Without a signature the model may be any of that trainer.
    """
    path = manifest_path.with_suffix(".ckpt")
    try:
        manifest = json.loads(manifest_path.read_text("utf-8"))
        version, made_by = manifest.get("form", 1), manifest["trainer"]
        model = manifest["signature"]
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise UserError(f"{manifest_path} is not a checkpoint's manifest: {error!r}") from error
    if version != FORMAT_VERSION:
        older = version < FORMAT_VERSION
        age = "older trainers, which saved other things" if older else "newer trainers"
        numbers = f"format version {version}, these read {FORMAT_VERSION}"
        raise UserError(f"{path} is of {age} ({numbers})")
    if made_by != trainer:
        raise UserError(f"{path} is a checkpoint of {made_by}, not of {trainer}")
    if signature not in (None, model):
        raise UserError(f"{path} is of another model: its weights have other names or shapes")
    try:
        sha256, size = digest(path)
        payload = path if path.is_dir() else path.read_bytes()
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}") from error
    if size != manifest["bytes"]:
        raise UserError(f"{path} is truncated: it has {size} of {manifest['bytes']} bytes")
    if sha256 != manifest["sha256"]:
        raise UserError(f"{path} is damaged: its checksum is not that of its manifest")
    return manifest, payload


Loaded = Union[tuple[Manifest, Payload], None]
Say = Callable[[str], None]


def newest(folder: Path, trainer: str, signature: str, say: Say) -> Loaded:
    """Return the newest checkpoint that is whole and of this trainer and model.

    `say` names those that are refused. Raises `UserError` if all were: to begin again would
    silently replace the run.
    """
    refused = []
    for path in sorted(folder.glob("step-*.json"), reverse=True):
        try:
            return load(path, trainer, signature)
        except UserError as error:
            refused.append(str(error))
            say(f"warning: not used: {error}")
    if refused:
        text = "\n  ".join(refused)
        raise UserError(
            f"none of the checkpoints in {folder} can be used:\n  {text}\n"
            "Begin again with --resume never, or in another --output."
        )
    return None


def find(word: str, own_folder: Path, trainer: str, signature: str, say: Say) -> Loaded:
    """Return the checkpoint that `--resume WORD` means; `own_folder` is this run's folder.

    WORD may be a checkpoint, its manifest, their folder or a run's output folder.
    """
    if word == "never":
        return None
    # A job that was requeued has come further than PATH.
    if word == "auto" or os.environ.get("RESUME") == "auto":
        mine = newest(own_folder, trainer, signature, say)
        if mine or word == "auto":
            return mine
    path = Path(word)
    if path.is_file() or path.suffix in (".ckpt", ".json"):
        return load(path.with_suffix(".json"), trainer, signature)
    folder = path / "checkpoints" if (path / "checkpoints").is_dir() else path
    latest = newest(folder, trainer, signature, say)
    if latest is None:
        raise UserError(f"--resume {word}: there is no checkpoint in {folder}")
    return latest


def to_resume(
    args: Namespace, output: Path, trainer: str, signature: str, count: int, say: Say
) -> Loaded:
    """Return the checkpoint that a run of `count` samples in the folder `output` continues from.

    Raises `UserError` for one that these options cannot continue.
    """
    latest = find(args.resume, output / "checkpoints", trainer, signature, say)
    if latest is None:
        return None
    was, now = latest[0], {"count": count, "seed": args.seed}
    if was["taken"] and any(was[key] != value for key, value in now.items()):
        raise UserError(
            f"the checkpoint is from the middle of epoch {was['epoch']} with {was['count']} "
            f"samples and --seed {was['seed']}, and now they are {now['count']} and "
            f"{now['seed']}: give the same to continue"
        )
    for option, done in (("epochs", was["epoch"] - 1), ("max_steps", was["step"])):
        limit = getattr(args, option)
        if limit is not None and done >= limit:
            raise UserError(
                f"nothing is left to do: the checkpoint has {was['step']} steps, "
                f"{was['epoch'] - 1} whole epochs; give more than "
                f"--{option.replace('_', '-')} {limit}"
            )
    return latest
