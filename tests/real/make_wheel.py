"""Makes small wheels: python3 make_wheel.py FOLDER NAME==VERSION[:REQUIREMENT[:CODE]] ...

Standard library only: it runs on the cluster's login node.
"""

from __future__ import annotations

import sys
import zipfile
from pathlib import Path


def make(folder: Path, name: str, version: str, requirement: str, code: str) -> None:
    """Write one wheel with a module that knows its version and runs some code."""
    info = f"{name}-{version}.dist-info"
    needs = f"Requires-Dist: {requirement}\n" if requirement else ""
    files = {
        f"{name}/__init__.py": f"VERSION = {version!r}\n{code}\n",
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{needs}",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    files[f"{info}/RECORD"] = "".join(f"{file},,\n" for file in [*files, f"{info}/RECORD"])
    with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as wheel:
        for file, text in files.items():
            wheel.writestr(file, text)


if __name__ == "__main__":
    for word in sys.argv[2:]:
        pin, _, rest = word.partition(":")
        requirement, _, code = rest.partition(":")
        name, _, version = pin.partition("==")
        make(Path(sys.argv[1]), name, version, requirement, code)
