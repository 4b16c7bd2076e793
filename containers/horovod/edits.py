"""Our edits of the Horovod 0.28.1 source archive, so that it compiles against today's frameworks.

Horovod 0.28.1 (June 2023) is the last release. It predates torch 2.1, TensorFlow 2.16 and
Python 3.12. Run as a program on a freshly unpacked source tree:

    python3 edits.py SOURCE_DIR

Every edit states how often its old text occurs; any other count means that the tree is not the
released 0.28.1, or was edited before, and nothing is written at all.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Edit:
    """Replace `old`, which occurs `count` times in `file`, by `new`; `why` is for the reader."""

    file: str
    old: str
    new: str
    why: str
    count: int = 1


class EditError(Exception):
    """The source tree is not the one an edit was written for."""


CXX17 = "torch >= 2.1 and TensorFlow >= 2.16 headers need C++17"
GLOO17 = (
    "gloo must speak the same C++ as its callers, or linking fails on"
    " gloo::rendezvous::Store::kDefaultTimeout (an inline variable from C++17 on)"
)
RELEASE = "-g takes two fifths of the time to compile, and 34 of 36 MB; -O3 stays"
KERAS = "the callbacks must use the Keras that TensorFlow uses (tf-keras), not Keras 3"

EDITS = (
    Edit("setup.py", "else 'RelWithDebInfo'", "else 'Release'", RELEASE),
    Edit("CMakeLists.txt", "set(CMAKE_CXX_STANDARD 14)", "set(CMAKE_CXX_STANDARD 17)", CXX17),
    Edit(
        "horovod/torch/CMakeLists.txt",
        "set(CMAKE_CXX_STANDARD 14)",
        "set(CMAKE_CXX_STANDARD 17)",
        CXX17,
    ),
    Edit("third_party/gloo/CMakeLists.txt", "-std=c++11", "-std=c++17", GLOO17),
    Edit(
        "horovod/common/ops/cuda/CMakeLists.txt",
        "set(CMAKE_CUDA_STANDARD 11)",
        "set(CMAKE_CUDA_STANDARD 17)",
        "nvcc compiles with the host compiler's headers, which need C++17 from gcc 11 on",
    ),
    Edit(
        "horovod/tensorflow/CMakeLists.txt",
        'list(APPEND TF_SOURCES "${PROJECT_SOURCE_DIR}/horovod/tensorflow/xla_mpi_ops.cc")\n',
        "",
        "needs XLA headers that the TensorFlow wheel lacks; costs only HOROVOD_ENABLE_XLA_OPS",
    ),
    Edit(
        "horovod/common/common.h",
        "#include <memory>\n",
        "#include <memory>\n#include <stdexcept>\n",
        "gcc 13 no longer includes it through other headers",
    ),
    Edit(
        "horovod/common/group_table.h",
        "#include <queue>\n",
        "#include <queue>\n#include <string>\n",
        "gcc 13 no longer includes it through other headers",
    ),
    Edit(
        "horovod/torch/CMakeLists.txt",
        "from distutils.sysconfig import get_python_inc; print(get_python_inc())",
        "import sysconfig; print(sysconfig.get_path('include'))",
        "Python 3.12 has no distutils",
    ),
    Edit(
        "horovod/runner/js_run.py",
        "from distutils.spawn import find_executable",
        "from shutil import which as find_executable",
        "Python 3.12 has no distutils",
    ),
    Edit(
        "horovod/tensorflow/keras/__init__.py",
        "    from keras import backend as K",
        "    K = tf.keras.backend",
        KERAS,
    ),
    Edit(
        "horovod/tensorflow/keras/callbacks.py",
        "    from keras import backend as K",
        "    K = tf.keras.backend",
        KERAS,
    ),
)


def edited(edit: Edit, text: str) -> str:
    """Return `text` with the edit made; EditError when `old` does not occur `count` times."""
    found = text.count(edit.old)
    if found != edit.count:
        raise EditError(
            f"{edit.file}: expected {edit.count} time(s), found {found}: {edit.old!r}\n"
            "Edit a freshly unpacked horovod-0.28.1; the build edits the tree it runs in."
        )
    return text.replace(edit.old, edit.new)


def read_source(tree: Path, file: str) -> str:
    """Return the text of `file` in `tree`; EditError when it is not there."""
    try:
        return (tree / file).read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise EditError(f"{file}: no such file in {tree}; is it horovod-0.28.1?") from error


def apply(tree: Path, edits: tuple[Edit, ...] = EDITS) -> list[str]:
    """Make all edits in `tree` or none; return the edited files. Raises EditError."""
    texts: dict[str, str] = {}
    for edit in edits:
        before = texts[edit.file] if edit.file in texts else read_source(tree, edit.file)
        texts[edit.file] = edited(edit, before)
    for file, text in texts.items():
        (tree / file).write_text(text, encoding="utf-8")
    return list(texts)


def main(argv: list[str]) -> int:
    """Edit the source tree named on the command line."""
    if len(argv) != 1:
        print("usage: python3 edits.py SOURCE_DIR", file=sys.stderr)
        return 2
    try:
        files = apply(Path(argv[0]))
    except EditError as error:
        print(f"edits.py: {error}", file=sys.stderr)
        return 1
    print(f"edits.py: made {len(EDITS)} edits in {len(files)} files")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
