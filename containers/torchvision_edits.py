"""Our edit of torchvision 0.28.0, so that it imports without its compiled operators.

The package index has torchvision linked to CUDA, whose libraries cannot be loaded beside PyTorch's
CPU build. torchvision allows for that (`_has_ops()` is false then, and what needs an operator says
so), but not in what it registers at import. Run in the image while it is built:

    python3 -m new.torchvision_edits SITE_PACKAGES      (with horovod/edits.py beside it)
"""

from __future__ import annotations

import sys
from pathlib import Path

from .horovod.edits import Edit, EditError, apply

LOADED = 'if _load_library("_C"):\n\n    def _has_ops():  # noqa: F811\n        return True\n'
NEXT = "\n\ndef _assert_has_ops():\n"
DECLARED = """
else:
    _declared = torch.library.Library("torchvision", "FRAGMENT")
    _declared.define("nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    _declared.define("qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
"""
EDITS = (
    Edit(
        "torchvision/extension.py",
        LOADED + NEXT,
        LOADED + DECLARED + NEXT,
        "_meta_registrations.py gives these two a fake at import, which fails for an unknown"
        " operator; what is registered besides waits until it is used",
    ),
)


def main(argv: list[str]) -> int:
    """Edit torchvision in the folder named on the command line."""
    try:
        apply(Path(argv[0]), EDITS)
    except EditError:
        print(f"{argv[0]} has no torchvision 0.28.0 as it was released", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
