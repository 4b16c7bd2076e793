"""Checkpoints on disk: `step-00000123.ckpt`, and beside it `step-00000123.json`, its manifest.

The manifest is written last and has the checkpoint's SHA-256: without it, or with a file that does
not fit it, there is no checkpoint. Only rank 0 reads and writes here. A checkpoint of which each
rank writes and reads a part is a folder of that name.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from argparse import Namespace
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Union

from recipes.errors import UserError

from .files import Sum, write_json
from .steps import Position, Shards

AUTO, NEVER = "auto", "never"
#: What a checkpoint's file has; of a folder its path, for every rank to read.
Payload = Union[bytes, Path]
#: The form of manifests, one more whenever older trainers could not read them. The first had none.
FORM = 1


@dataclass(frozen=True)
class Manifest:
    """What a checkpoint is of. `count` is the size of the training set, `history` has the epochs.

    `signature` tells one model's weights from another's.
    """

    trainer: str
    signature: str
    position: Position
    count: int
    world_size: int
    arguments: dict[str, Any]
    versions: dict[str, str]
    history: list[dict[str, Any]] = field(default_factory=list)
    resumed_at_steps: list[int] = field(default_factory=list)
    sha256: str = ""
    bytes: int = 0
    time: str = ""
    form: int = FORM

    @classmethod
    def read(cls, path: Path) -> Manifest:
        """Read a manifest; raise `UserError` naming the file if it is not one."""
        try:
            values = json.loads(path.read_text(encoding="utf-8"))
            if (form := values.get("form", FORM)) != FORM:
                raise UserError(
                    f"{path} is of form {form}: newer trainers wrote it, these read {FORM}"
                )
            position = Position(**values.pop("position"))
            return cls(position=position, **values)
        except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
            raise UserError(f"{path} is not the manifest of a checkpoint: {error}") from error


class Checkpoints:
    """The checkpoints in one folder, of which the newest `keep` stay."""

    def __init__(self, folder: Path, keep: int) -> None:
        self.folder, self.keep = folder, keep

    def save(self, manifest: Manifest, write: Callable[[Path], Sum]) -> Path:
        """Write a checkpoint, then take away those that are too old. Raises OSError."""
        path = self.folder / f"step-{manifest.position.step:08d}.ckpt"
        path.with_suffix(".json").unlink(missing_ok=True)  # of the checkpoint that is now replaced
        remove(path)
        whole = write(path)
        write_json(path.with_suffix(".json"), {**asdict(manifest), **asdict(whole)})
        for old in self._manifests()[self.keep :]:
            if _trainer_of(old) == manifest.trainer:
                old.unlink()  # first: a checkpoint without manifest does not exist
                remove(old.with_suffix(".ckpt"))
        return path

    def newest(
        self, trainer: str, signature: str, say: Callable[[str], None]
    ) -> tuple[Manifest, Payload] | None:
        """Return the newest checkpoint that is whole and of this trainer and model.

        Those refused are told by name through `say`. None if there is none at all; `UserError` if
        there are some, and all were refused: to begin anew would take the run's place in silence.
        """
        refused = []
        for path in self._manifests():
            try:
                return load(path, trainer, signature)
            except UserError as error:
                refused.append(str(error))
                say(f"warning: not used: {error}")
        if refused:
            text = "\n  ".join(refused)
            raise UserError(f"none of the checkpoints in {self.folder} can be used:\n  {text}\n"
                            "Begin anew with --resume never, or in another --output.")  # fmt: skip
        return None

    def _manifests(self) -> list[Path]:
        return sorted(self.folder.glob("step-*.json"), reverse=True)


def remove(path: Path) -> None:
    """Take away a checkpoint, a file or a folder, if it is there."""
    if path.is_dir():
        shutil.rmtree(path)
    path.unlink(missing_ok=True)


def _read(path: Path) -> tuple[Payload, Sum]:
    if path.is_dir():
        return path, Sum.of_folder({each.name: Sum.of_file(each) for each in path.iterdir()})
    payload = path.read_bytes()
    return payload, Sum(hashlib.sha256(payload).hexdigest(), len(payload))


def load(manifest_path: Path, trainer: str, signature: str) -> tuple[Manifest, Payload]:
    """Return manifest and payload of one checkpoint; raise `UserError` that names its fault."""
    manifest = Manifest.read(manifest_path)
    path = manifest_path.with_suffix(".ckpt")
    if manifest.trainer != trainer:
        raise UserError(f"{path} is a checkpoint of {manifest.trainer}, not of {trainer}")
    if manifest.signature != signature:
        raise UserError(f"{path} is of another model: its weights have other names or shapes")
    try:
        payload, found = _read(path)
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}") from error
    if found.bytes != manifest.bytes:
        raise UserError(f"{path} is cut: it has {found.bytes} of {manifest.bytes} bytes")
    if found.sha256 != manifest.sha256:
        raise UserError(f"{path} is damaged: its checksum is not that of its manifest")
    return manifest, payload


def find(
    word: str, own: Checkpoints, trainer: str, signature: str, say: Callable[[str], None]
) -> tuple[Manifest, Payload] | None:
    """Return what `--resume WORD` means: none, the newest one here, or one elsewhere.

    `word` may be a checkpoint, its manifest, their folder or the output folder of a run.
    """
    if word in (NEVER, AUTO):
        return own.newest(trainer, signature, say) if word == AUTO else None
    # A job that was queued again (`runner launch --requeue`) has come further than PATH.
    if os.environ.get("RESUME") == AUTO and (mine := own.newest(trainer, signature, say)):
        return mine
    path = Path(word)
    if path.is_file() or path.suffix in (".ckpt", ".json"):
        return load(path.with_suffix(".json"), trainer, signature)
    folder = path / "checkpoints" if (path / "checkpoints").is_dir() else path
    found = Checkpoints(folder, own.keep).newest(trainer, signature, say)
    if found is None:
        raise UserError(f"--resume {word}: there is no checkpoint in {folder}")
    return found


def _trainer_of(path: Path) -> str:
    try:
        return Manifest.read(path).trainer
    except UserError:
        return ""  # not ours to take away


def require_steps_left(position: Position, args: Namespace) -> None:
    """Raise `UserError` when nothing is left to do."""
    done = {"epochs": position.epoch - 1, "max_steps": position.step}
    for name, reached in done.items():
        limit, option = getattr(args, name), "--" + name.replace("_", "-")
        if limit is not None and reached >= limit:
            raise UserError(
                f"nothing is left to do: the checkpoint has {position.step} steps, "
                f"{position.epoch - 1} whole epochs; give more than {option} {limit}"
            )


def require_same_order(manifest: Manifest, shards: Shards) -> None:
    """Raise `UserError` for another order of samples in the middle of an epoch.

    It would show some samples twice and others never.
    """
    if manifest.position.taken == 0:
        return
    counts = ("samples", manifest.count, shards.count)
    seeds = ("--seed", manifest.arguments.get("seed"), shards.seed)
    for name, before, given in (counts, seeds):
        if before != given:
            raise UserError(
                f"the checkpoint is from the middle of epoch {manifest.position.epoch} with "
                f"{name} {before}, and now it is {given}: give the same to go on"
            )


def changes(before: Manifest, now: dict[str, Any], world_size: int) -> list[str]:
    """Say which settings differ from those of the checkpoint, as `name: old -> new`."""
    ignored = {"output", "resume", "keep", "profile", "timeline", "log_interval"}
    old = {"ranks": before.world_size, **before.arguments}
    new = {"ranks": world_size, **now}
    changed = [name for name in new if name not in ignored and old.get(name) != new[name]]
    return [f"{name}: {old.get(name)} -> {new[name]}" for name in changed]
