"""The forms in which the image is tried."""

from __future__ import annotations

from dataclasses import dataclass

from containers import catalogue
from containers.plan import ZSTD

PLAIN = "plain environment"
FOLDER = "sandbox folder"


@dataclass(frozen=True)
class Form:
    """A way of packing: a name for people, and the options of mksquashfs."""

    name: str
    options: tuple[str, ...]

    @property
    def file(self) -> str:
        """Name of the packed file."""
        return self.name.replace(" ", "-") + ".sqfs"


def zstd(level: int, block: str) -> Form:
    """Zstandard at a level, with blocks of a size in mksquashfs' words, such as 128K."""
    options = ("-comp", "zstd", "-Xcompression-level", str(level), "-b", block)
    return Form(f"zstd-{level} {block}", options)


STORED = Form("not compressed", ("-no-compression", "-b", "128K"))
FORMS = (
    Form("gzip 128K", ("-comp", "gzip", "-b", "128K")),  # mksquashfs' own default
    Form("lz4hc 128K", ("-comp", "lz4", "-Xhc", "-b", "128K")),
    zstd(3, "128K"),
    zstd(9, "128K"),
    zstd(9, "256K"),
    zstd(15, "256K"),
    zstd(9, "1M"),
    zstd(19, "1M"),
    STORED,
)


def chosen() -> Form:
    """The one that our CPU image is packed in. LookupError when it is not tried here."""
    ours = ZSTD.format(catalogue.image("cpu").level)
    for form in FORMS:
        if form.options == tuple(ours.split()):
            return form
    raise LookupError(f"containers/catalogue.py packs with {ours}, which is not in FORMS")
