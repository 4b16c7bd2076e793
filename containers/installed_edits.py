"""Our edits of installed packages, each for the one release that a lock names; others stay.

Run in the image while it is built, with horovod/edit.py beside it:

    python3 -m new.installed_edits SITE_PACKAGES [NAME...]      (all of them)

torchvision: the package index has it linked to CUDA, whose libraries cannot be loaded beside
PyTorch's CPU build. It allows for that (`_has_ops()` is false then, and what needs an operator says
so), but not in what it registers at import.

keras: each `import tensorflow` imports scikit-learn, SciPy's statistics and IPython with it, 700
modules and a quarter of its time, for three classes and a method that few programs use. They are
imported where they are used.
"""

from __future__ import annotations

import sys
from pathlib import Path

from .horovod.edit import EditError, Row, apply

LOADED, NEXT = "        return True\n", "\n\ndef _assert_has_ops():"
DECLARED = """
else:
    _declared = torch.library.Library("torchvision", "FRAGMENT")
    _declared.define("nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    _declared.define("qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
"""

NAMES = '__all__ = ["SKLearnClassifier", "SKLearnRegressor", "SKLearnTransformer"]'
LATER = """


def __getattr__(name):
    if name in __all__:
        from keras.src.wrappers import sklearn_wrapper

        return getattr(sklearn_wrapper, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__():
    return sorted({*globals(), *__all__})"""
SKLEARN = "scikit-learn and SciPy's statistics are imported with the class that needs them"
FROM = "from keras.src.wrappers.sklearn_wrapper import"
CLASSES = ("SKLearnClassifier", "SKLearnRegressor", "SKLearnTransformer")
SHORT = "".join(f"{FROM} {name}\n" for name in CLASSES) + "\n"
LONG = "\n".join(f"{FROM} (\n    {name} as {name},\n)" for name in CLASSES)
EDITOR = "keras/src/saving/file_editor.py"
IPYTHON = "IPython is imported when it shows weights in a notebook"

RELEASES = {"torchvision": "0.28.0", "keras": "3.15.1"}
EDITS = {
    "torchvision": (
        Row(
            "torchvision/extension.py",
            LOADED + NEXT,
            "_meta_registrations.py gives these two a fake at import, which fails for an unknown"
            " operator; what is registered besides waits until it is used",
            instead=LOADED + DECLARED + NEXT,
        ),
    ),
    "keras": (
        Row("keras/src/wrappers/__init__.py", SHORT + NAMES, SKLEARN, instead=NAMES + LATER),
        *(
            Row(f"{wrappers}/__init__.py", LONG, SKLEARN, instead=NAMES + LATER)
            for wrappers in ("keras/wrappers", "keras/_tf_keras/keras/wrappers")
        ),
        Row(
            EDITOR,
            "try:\n    import IPython as ipython\nexcept ImportError:\n    ipython = None\n\n\n",
            IPYTHON,
            instead="",
        ),
        Row(EDITOR, "ipython.display.display(", IPYTHON, before="import IPython as ipython\n\n"),
    ),
}


def main(argv: list[str]) -> int:
    """Edit packages in the folder named first on the command line."""
    site = Path(argv[0])
    for name in argv[1:] or EDITS:
        release = f"{name}-{RELEASES[name]}"
        if (site / f"{release}.dist-info").is_dir():
            try:
                apply(site, EDITS[name])
            except EditError as error:
                print(f"{site} has no {release} as it was released: {error}", file=sys.stderr)
                return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
