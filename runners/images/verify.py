"""Is an image what it says, and does it work? One line for each question, with its evidence."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Callable

from ..core import diagnosis, machine, shell, sif
from ..core.command_line import CommandLine
from ..core.diagnosis import Diagnosis, Severity
from ..core.errors import RunnerError
from ..core.remedy import advice
from ..settings import suggest
from . import container_runtime, recorded_digest
from .facts import digest_cache, image_labels, probe_image
from .store import images_lock

PASS, FAIL, UNSIGNED, OPEN = "pass", "fail", "not signed", "not checked"
AGAIN = "pull or build it again"
BYTES_PER_SECOND = 20e6  # a slow network file system, for the time limit


@dataclass(frozen=True)
class ImageCheck(Diagnosis):
    """The answer to one question, which has a `name`; where an error is the answer, its id."""

    name: str = ""
    state: str = ""

    def facts(self, typed: CommandLine) -> dict[str, Any]:
        """Return it for programs; `typed` is the command whose changes the remedies are."""
        resolved = partial(suggest.as_json, typed=typed)
        return {
            "name": self.name,
            "state": self.state,
            "evidence": f"{self.what}\n{self.evidence}".strip(),
            "remedy": "\n".join(map(str, self.remedies)),
            "diagnosis": diagnosis.as_data(self, resolved) if self.id else None,
        }


def verify(
    image: Path, digest: str, quick: bool, tell: Callable[[str], None]
) -> Iterator[ImageCheck]:
    """Yield each line as soon as it is known; the last ones take a minute.

    `digest` is the one that the image should have, "" for any; `quick` leaves out whatever runs in
    the image; `tell` is called before what takes long.
    After a file that is not whole nothing more can be asked, and nothing is run from an image that
    has failed already: it may be another's work.
    """
    failed = False
    for check in _outside(image, digest):
        failed = failed or check.state == FAIL
        yield check
    if failed:
        yield _check("contents", OPEN, "nothing is run from an image that has failed already")
    elif not quick:
        yield from _inside(image, tell)


def _outside(image: Path, digest: str) -> Iterator[ImageCheck]:
    whole = _asked("whole", lambda: _whole(image))
    yield whole
    if whole.state == PASS:
        yield _architecture(image)
        yield _digest(image, digest)
        yield _asked("signature", lambda: _signature(image))


def _asked(name: str, question: Callable[[], ImageCheck]) -> ImageCheck:
    try:
        return question()
    except RunnerError as error:
        return _failed(name, error)


def _failed(name: str, error: RunnerError) -> ImageCheck:
    return ImageCheck(**vars(error.diagnosis), name=name, state=FAIL)


def _check(name: str, state: str, found: str, remedy: str = "") -> ImageCheck:
    severity = Severity.FAILURE if state == FAIL else Severity.OK
    what, _, evidence = found.partition("\n")
    remedies = (advice(remedy),) if remedy else ()
    return ImageCheck("", severity, what, evidence, remedies, name=name, state=state)


def _whole(image: Path) -> ImageCheck:
    image_labels.read(image)
    if image.is_dir():
        return _check("whole", PASS, "a sandbox folder; nothing says what should be in it")
    size = image.stat().st_size
    return _check("whole", PASS, f"{len(sif.objects(image))} objects in {size} bytes")


def _architecture(image: Path) -> ImageCheck:
    native = machine.architecture()
    of_image = None if image.is_dir() else sif.architecture(sif.objects(image))
    if of_image is None:
        return _check("architecture", OPEN, f"the image does not say; this machine is {native}")
    if of_image != native:
        remedy = f"build or pull it for {native}, or verify on {of_image}"
        return _check(
            "architecture", FAIL, f"it is for {of_image}, this machine is {native}", remedy
        )
    return _check("architecture", PASS, of_image)


def _digest(image: Path, given: str) -> ImageCheck:
    """Compare the file's digest with those that are wanted; it is computed again each time."""
    if image.is_dir():
        return _check("digest", FAIL if given else OPEN, "a folder has no digest")
    actual = digest_cache.compute_digest(image)
    wanted = {"--digest": given} if given else {}
    wanted |= recorded_digest.of(image)
    for origin, digest in wanted.items():
        if digest != actual:
            return _check("digest", FAIL, f"{actual}\nnot {digest} ({origin})", AGAIN)
    if not wanted:
        return _check("digest", OPEN, f"{actual}; no --digest, and not in {images_lock.FILE}")
    return _check("digest", PASS, f"{actual} ({', '.join(wanted)})")


def _signature(image: Path) -> ImageCheck:
    """Let the container runtime check a signed file by the keys of its keyring; show its words."""
    if image.is_dir():
        return _check("signature", UNSIGNED, "a folder cannot be signed")
    if not sif.is_signed(image):
        return _check("signature", UNSIGNED, "nobody has signed it", f"apptainer sign {image}")
    argv = [container_runtime.command(), "verify", "--local", str(image)]
    done = shell.run(argv, timeout=60 + image.stat().st_size / BYTES_PER_SECOND)
    return _check("signature", FAIL if done.code else PASS, f"{done.out}{done.err}".strip())


def _inside(image: Path, tell: Callable[[str], None]) -> Iterator[ImageCheck]:
    try:
        tell("inspecting the image")
        labels, versions = image_labels.read(image).labels, probe_image.versions(image)
        yield _labels(labels, versions)
        tell("two ranks sum in it with each framework: a minute")
        test = probe_image.own_test if "selftest" in versions else probe_image.foreign_test
        proven = test(image)
        yield _build(image, labels, proven.built)
        yield _check("self-test", FAIL if proven.failure else PASS, proven.failure or proven.agreed)
    except RunnerError as error:
        yield _failed("runs", error)


def _labels(labels: dict[str, str], inside: dict[str, str]) -> ImageCheck:
    """Compare each label with what is inside, where that could be found out."""
    compared, wrong = [name for name in labels if name in inside], differing(labels, inside)
    if not compared:
        return _check("labels", OPEN, "it has no labels of this project")
    if wrong:
        return _check("labels", FAIL, "\n".join(wrong), AGAIN)
    return _check("labels", PASS, f"{len(compared)} agree with what is inside")


def differing(labels: dict[str, str], inside: dict[str, str]) -> list[str]:
    """Return one line for each label that says something else than was found inside."""
    return [
        f"{name}: the label says {text}, inside is {inside[name]}"
        for name, text in labels.items()
        if name in inside and set(text.split(",")) != set(inside[name].split(","))
    ]


def _build(image: Path, labels: dict[str, str], built: dict[str, str]) -> ImageCheck:
    if not built:
        what = "Horovod did not tell what it was built with"
        ask = [container_runtime.command(), "exec", str(image), "horovodrun", "--check-build"]
        return _check("check-build", FAIL, what, shlex.join(ask))
    has = {kind: built.get(fact, "none") for kind, fact in probe_image.WORDS.items()}
    line = "; ".join(f"{kind} {names}" for kind, names in has.items())
    wrong = differing(labels, built)
    state = FAIL if "none" in has.values() or wrong else PASS
    return _check("check-build", state, "\n".join([line, *wrong]))
