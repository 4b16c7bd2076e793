"""One tree from the image, packed again in each form; kept until the part `remove`."""

from __future__ import annotations

import sys
from dataclasses import dataclass

from containers import build_record
from runners.core import sif
from tests.cluster.state import USER

from .. import cluster
from ..errors import BenchError
from ..report import Part, Row, row
from ..rounds import seconds
from .forms import FORMS, Form

ROOT = f"/scratch/{USER}/bench-images"
AS_ROOT = ("unshare", "--user", "--map-root-user", "--map-auto")
TITLE = "Packing the unpacked image: size of the file, and time on all CPUs"
AIM = "<= 500"


@dataclass(frozen=True)
class Shelf:
    """The folder on the cluster's scratch where one image lies in all its forms."""

    folder: str

    @property
    def tree(self) -> str:
        """The unpacked image."""
        return f"{self.folder}/tree"

    def packed(self, form: Form) -> str:
        """The image in a form."""
        return f"{self.folder}/{form.file}"


def shelf() -> Shelf:
    """The present image's, with the tree in it; made when it is not there. Raises BenchError."""
    cluster.require_image()
    image = cluster.on_host(cluster.IMAGE)
    noted = build_record.read(image)
    name = noted.digest[-16:] if noted else str(image.stat().st_mtime_ns)
    found = Shelf(f"{ROOT}/{name}")
    if not cluster.on_host(found.tree).exists():
        _unpack(found)
    return found


def _unpack(found: Shelf) -> None:
    partition = next(
        item for item in sif.objects(cluster.on_host(cluster.IMAGE)) if item.type == sif.PARTITION
    )
    print("bench: unpacking the image, once ...", file=sys.stderr, flush=True)
    part = f"{found.folder}/part"
    command = ["unsquashfs", "-quiet", "-no-progress", "-offset", str(partition.offset)]
    cluster.run(["mkdir", "-p", found.folder])
    cluster.run([*AS_ROOT, "rm", "-rf", part])
    cluster.run([*AS_ROOT, *command, "-dest", part, cluster.IMAGE])
    cluster.run(["mv", part, found.tree])


def pack(found: Shelf, form: Form) -> float:
    """Pack the tree in a form and keep the file; seconds. Raises BenchError."""
    part = f"{found.folder}/part.sqfs"
    options = ["-noappend", "-quiet", "-no-progress", *form.options]
    cluster.run(["rm", "-f", part])
    took = seconds(lambda: cluster.run([*AS_ROOT, "mksquashfs", found.tree, part, *options]))
    cluster.run(["mv", part, found.packed(form)])
    return took


def require(found: Shelf, forms: tuple[Form, ...]) -> None:
    """BenchError unless the forms are packed."""
    missing = [form.name for form in forms if not cluster.on_host(found.packed(form)).exists()]
    if missing:
        raise BenchError(f"not packed: {', '.join(missing)}; python -m tests.bench.images pack")


def measure() -> list[Part]:
    """Pack all forms; what is there is packed again, for its time. Raises BenchError."""
    found = shelf()
    took = {form.name: pack(found, form) for form in FORMS}
    sizes = {form.name: _megabytes(found, form) for form in FORMS}
    return [Part(TITLE, table(sizes, took), {"megabytes": sizes, "seconds": took})]


def table(sizes: dict[str, float], took: dict[str, float]) -> tuple[Row, ...]:
    """A line for each size and time."""
    rows = [Row(name, size, "MB", 1, aim=AIM) for name, size in sizes.items()]
    return (*rows, *(row(f"{name}, packing", [value], "s") for name, value in took.items()))


def _megabytes(found: Shelf, form: Form) -> float:
    return cluster.on_host(found.packed(form)).stat().st_size / 1e6


def remove() -> list[Part]:
    """Take all forms of all images off scratch. Raises BenchError."""
    cluster.run([*AS_ROOT, "rm", "-rf", ROOT])
    return [Part("Removing the packed forms", notes=(f"removed {ROOT}",))]
