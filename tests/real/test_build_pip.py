"""What the host's own pip does for a build: what it fetches and says, what it takes out again.

It asks a server here, which stands for the common index and for PyTorch's. No cluster is needed.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import threading
import zipfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from containers import host_environment, image_catalogue, pip, wheels
from containers.host_environment import EnvironmentOptions
from containers.image_catalogue import Image
from runners.core.errors import SystemFault

TORCH = "torch-2.13.0+cpu-py3-none-any.whl"


class Quiet(SimpleHTTPRequestHandler):
    """Serves a folder and notes what was asked."""

    asked: list[str]

    def log_message(self, *_: Any) -> None:
        type(self).asked.append(self.path)


@dataclass
class Indexes:
    """Two package indexes below one folder, a lock of what they have, and where to fetch to."""

    folder: Path
    address: str
    asked: list[str]

    def put(self, index: str, file: str, content: str = "") -> str:
        """Publish a tiny wheel, and return its line of a lock."""
        name, version = file.split("-")[:2]
        page = self.folder / index / name
        page.mkdir(parents=True)
        about = f"{name}-{version}.dist-info"
        with zipfile.ZipFile(page / file, "w") as wheel:
            wheel.writestr(f"{name}.py", content)
            wheel.writestr(
                f"{about}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
            )
            wheel.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
            wheel.writestr(f"{about}/RECORD", "")
        link = file.replace("+", "%2B")
        (page / "index.html").write_text(f'<a href="{link}">{file}</a>')
        digest = hashlib.sha256((page / file).read_bytes()).hexdigest()
        return f"{name}=={version} --hash=sha256:{digest}\n"

    def image(self, *lines: str) -> Image:
        """An image whose lock is these lines."""
        lock = self.folder / "x.lock"
        lock.write_text("".join(lines))
        return replace(image_catalogue.image("cpu"), lock=str(lock))

    @property
    def wheels(self) -> Path:
        return self.folder / "work" / "wheels"


@pytest.fixture
def indexes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Indexes]:
    """`common` is what pip is configured to ask, `cpu` stands for PyTorch's."""
    asked: list[str] = []
    handler = type("Handler", (Quiet,), {"asked": asked})
    (tmp_path / "work").mkdir()
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(handler, directory=str(tmp_path))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}"
        for name in [name for name in os.environ if name.startswith("PIP_")]:
            monkeypatch.delenv(name)
        monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
        monkeypatch.setenv("PIP_INDEX_URL", f"{address}/common")
        monkeypatch.setenv("PIP_RETRIES", "1")
        monkeypatch.setenv("RUNNER_TORCH_CPU_INDEX", f"{address}/cpu")
        monkeypatch.setenv("no_proxy", "127.0.0.1")
        yield Indexes(tmp_path, address, asked)
        server.shutdown()


def test_the_cpu_build_comes_from_pytorchs_index_when_the_common_one_has_none(
    indexes: Indexes, capsys: pytest.CaptureFixture[str]
) -> None:
    indexes.put("common", "torch-2.13.0-py3-none-any.whl")
    locked = [indexes.put("cpu", TORCH), indexes.put("common", "absl-1-py3-none-any.whl")]
    wheels.fetch(indexes.image(*locked), pip.PackageSource(), indexes.wheels)
    assert sorted(path.name for path in indexes.wheels.iterdir()) == [
        "absl-1-py3-none-any.whl",
        TORCH,
    ]
    said = capsys.readouterr().err
    assert f"torch 2.13.0+cpu: from PyTorch's CPU index ({indexes.address}/cpu), as" in said
    assert "/cpu/absl/" not in indexes.asked


def test_pytorchs_index_is_not_asked_for_what_the_configured_places_have(
    indexes: Indexes, capsys: pytest.CaptureFixture[str]
) -> None:
    line = indexes.put("common", TORCH)
    wheels.fetch(indexes.image(line), pip.PackageSource(), indexes.wheels)
    assert (indexes.wheels / TORCH).is_file()
    assert not [path for path in indexes.asked if path.startswith("/cpu")]
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("source", "variables", "why"),
    [
        ({"index_url": "{address}/common"}, {}, "as --index-url says where to look"),
        (
            {"wheelhouse": "work"},
            {"PIP_FIND_LINKS": "{address}/cpu/torch/"},
            "as --wheelhouse says where to look",
        ),
        ({}, {"PIP_NO_INDEX": "true"}, "as pip's configuration says no-index"),
    ],
)
def test_pytorchs_index_is_not_asked_where_the_user_says_so(
    indexes: Indexes,
    monkeypatch: pytest.MonkeyPatch,
    source: dict[str, str],
    variables: dict[str, str],
    why: str,
) -> None:
    image = indexes.image(indexes.put("cpu", TORCH))
    for name, value in variables.items():
        monkeypatch.setenv(name, value.format(address=indexes.address))
    given = {name: text.format(address=indexes.address) for name, text in source.items()}
    folder = {"wheelhouse": indexes.folder / "work"} if "wheelhouse" in given else {}
    with pytest.raises(SystemFault) as caught:
        wheels.fetch(image, pip.PackageSource(**{**given, **folder}), indexes.wheels)  # type: ignore[arg-type]
    assert "no file for torch==2.13.0+cpu" in str(caught.value)
    assert f"CPU index ({indexes.address}/cpu) is not asked, {why}" in str(caught.value)
    assert not [path for path in indexes.asked if path.startswith("/cpu")]
    assert list((indexes.folder / "work").iterdir()) == []


def test_another_file_on_pytorchs_index_is_refused(indexes: Indexes) -> None:
    indexes.put("cpu", TORCH, "# not the one that was locked")
    image = indexes.image(indexes.put("locked", TORCH, "# locked"))
    with pytest.raises(
        SystemFault, match=r"torch==2.13.0\+cpu is not the file that the lock"
    ) as caught:
        wheels.fetch(image, pip.PackageSource(), indexes.wheels)
    assert f"{indexes.address}/cpu/torch/" in str(caught.value)
    assert list((indexes.folder / "work").iterdir()) == []


def test_an_index_without_the_file_and_one_that_does_not_answer_are_told_apart(
    indexes: Indexes, monkeypatch: pytest.MonkeyPatch
) -> None:
    image = indexes.image(indexes.put("elsewhere", TORCH))
    with pytest.raises(SystemFault) as caught:
        wheels.fetch(image, pip.PackageSource(), indexes.wheels)
    assert f"CPU index ({indexes.address}/cpu) does not have it either" in str(caught.value)
    assert "--wheelhouse DIR" in str(caught.value)
    monkeypatch.setenv("RUNNER_TORCH_CPU_INDEX", "http://127.0.0.1:1/cpu")
    monkeypatch.setenv("PIP_RETRIES", "2")
    with pytest.raises(SystemFault) as caught:
        wheels.fetch(image, pip.PackageSource(), indexes.wheels)
    assert "PyTorch's CPU index (http://127.0.0.1:1/cpu) does not answer" in str(caught.value)
    assert str(caught.value).count("Connection refused") == 1


def test_the_machines_constraints_do_not_hide_that_a_file_is_missing(
    indexes: Indexes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """pip would speak of a conflict between the lock and them."""
    (indexes.folder / "constraints.txt").write_text("torch<99\n")
    (indexes.folder / "pip.conf").write_text(
        f"[global]\nconstraint = {indexes.folder}/constraints.txt\n"
    )
    monkeypatch.setenv("PIP_CONFIG_FILE", str(indexes.folder / "pip.conf"))
    wheels.fetch(indexes.image(indexes.put("cpu", TORCH)), pip.PackageSource(), indexes.wheels)
    assert (indexes.wheels / TORCH).is_file()


def test_a_horovod_that_does_not_load_is_taken_out_of_an_environment_again(tmp_path: Path) -> None:
    folder = tmp_path / "env"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    (site,) = folder.glob("lib/python3*/site-packages")

    def put(name: str) -> None:
        metadata = site / f"{name}-1.dist-info"
        metadata.mkdir()
        (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n")
        (metadata / "RECORD").write_text(f"{name}-1.dist-info/METADATA,,\n")

    put("mine")
    with suppress(SystemFault), host_environment.kept(EnvironmentOptions(folder)):
        put("horovod")
        raise SystemFault("it does not load")
    assert host_environment.packages(folder / "bin" / "python") == {"mine": "1"}
