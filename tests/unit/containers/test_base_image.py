"""`--base`: an image of a registry, or of a local archive, which is looked at before the build."""

from __future__ import annotations

import hashlib
import io
import json
import os
import tarfile
from pathlib import Path
from typing import Any

import pytest

from containers import base_image, build_plan, image_catalogue
from containers.apptainer import Apptainer
from containers.build_modes import Mode
from containers.build_plan import BuildOptions, BuildPlan
from containers.builder import Builder
from runners.core.errors import UsageError
from tests.docker_archive import docker_archive

from .. import sentences

MODE = Mode("fakeroot with subordinate ids", ("--fakeroot",), "", True)


def archive(file: Path, documents: dict[str, Any]) -> Path:
    """Write a tar of JSON documents."""
    with tarfile.open(file, "w") as tar:
        for name, content in documents.items():
            data = content if isinstance(content, bytes) else json.dumps(content).encode()
            member = tarfile.TarInfo(name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    return file


def blob(documents: dict[str, Any], content: object) -> str:
    """Add a blob; return its digest."""
    data = json.dumps(content).encode()
    digest = hashlib.sha256(data).hexdigest()
    documents[f"blobs/sha256/{digest}"] = data
    return f"sha256:{digest}"


def oci(file: Path, architecture: str = "amd64", images: int = 1) -> Path:
    documents: dict[str, Any] = {}
    config = blob(documents, {"architecture": architecture})
    manifest = blob(documents, {"schemaVersion": 2, "config": {"digest": config}, "layers": []})
    documents["index.json"] = {"manifests": [{"digest": manifest}] * images}
    return archive(file, documents)


def docker(folder: Path, architecture: str = "amd64") -> Path:
    (folder / "layer").write_bytes(b"")
    docker_archive(folder / "layer", folder / "docker.tar", architecture)
    return folder / "docker.tar"


def made(monkeypatch: pytest.MonkeyPatch, folder: Path, base: str) -> BuildPlan:
    monkeypatch.setenv("RUNNER_SCRATCH", str(folder / "scratch"))
    return build_plan.make("cpu", BuildOptions(base=base))


def test_the_definition_starts_from_an_archive_whose_path_is_not_kept(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for kind, file in (("docker-archive", docker(here)), ("oci-archive", oci(Path("a b:c")))):
        build_plan = made(monkeypatch, here, f"{kind}:{file}")
        builder = Builder(build_plan, Apptainer(MODE, {}, build_plan.folders.temporary))
        for build in (
            builder.environment_build(),
            builder.horovod_build(build_plan.horovod),
        ):
            assert (build.build_args["bootstrap"], build.build_args["from"]) == (kind, "base")
            assert build.files["base"] == here / file
            assert str(here) not in " ".join(build.build_args.values())
        assert len([step for step in builder.steps() if step.needed]) == 4


def test_what_is_in_the_file_belongs_to_the_keys_and_its_name_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, copy = oci(tmp_path / "first.tar"), tmp_path / "copy.tar"
    copy.write_bytes(file.read_bytes())
    before, same = (made(monkeypatch, tmp_path, f"oci-archive:{path}") for path in (file, copy))
    assert (before.key, before.horovod) == (same.key, same.horovod)
    with copy.open("ab") as stream:
        stream.write(bytes(10240))
    after = made(monkeypatch, tmp_path, f"oci-archive:{copy}")
    assert not {after.key, after.horovod.name} & {before.key, before.horovod.name}
    assert before.key != made(monkeypatch, tmp_path, "debian:12").key


@pytest.mark.parametrize("kind", ["docker-archive", "oci-archive"])
def test_a_file_that_cannot_be_the_base_is_refused(kind: str, tmp_path: Path) -> None:
    real = tmp_path / "real.tar"
    (tmp_path / "link.tar").symlink_to(real)
    os.mkfifo(tmp_path / "pipe.tar")
    (tmp_path / "text.tar").write_text("no archive")
    (tmp_path / "empty.tar").touch()
    archive(tmp_path / "others.tar", {"etc/passwd": b"root"})
    archive(real, {"manifest.json": {}, "index.json": []})
    archive(tmp_path / "null.tar", {"manifest.json": None, "index.json": None})
    archive(tmp_path / "cut.tar", {"manifest.json": b"[{", "index.json": b"{"})
    lost = {"manifest.json": [{"Config": "c"}], "index.json": {"manifests": [{"digest": "a:b"}]}}
    archive(tmp_path / "lost.tar", lost)
    with tarfile.open(tmp_path / "leads.tar", "w") as tar:
        for name in ("manifest.json", "index.json"):
            member = tarfile.TarInfo(name)
            member.type, member.linkname = tarfile.SYMTYPE, "/etc/passwd"
            tar.addfile(member)
    for name in ("absent.tar", "link.tar", "pipe.tar", "."):
        with sentences.raises("base-unusable", f"ls -l {tmp_path}/{name}"):
            base_image.find(f"{kind}:{tmp_path}/{name}", "amd64")
    for name in ("others.tar", "lost.tar", "leads.tar"):
        with sentences.raises("base-unusable", base_image.SAVE[kind].format(file=name)):
            base_image.find(f"{kind}:{tmp_path}/{name}", "amd64")
    for name in ("text.tar", "empty.tar", "real.tar", "null.tar", "cut.tar"):
        with pytest.raises(UsageError) as caught:  # with words of Python's as the evidence
            base_image.find(f"{kind}:{tmp_path}/{name}", "amd64")
        assert caught.value.diagnosis.id == "base-unusable"
        assert "no image is in it that" in str(caught.value)
        (remedy,) = map(str, caught.value.remedies)
        assert remedy == base_image.SAVE[kind].format(file=name)


def test_the_other_kind_of_archive_is_refused_with_what_writes_it(tmp_path: Path) -> None:
    for kind, file in (
        ("docker-archive", oci(tmp_path / "a.tar")),
        ("oci-archive", docker(tmp_path)),
        ("oci-archive", oci(tmp_path / "two.tar", images=2)),
    ):
        with sentences.raises("base-unusable", base_image.SAVE[kind].format(file=file.name)):
            base_image.find(f"{kind}:{file}", "amd64")


def test_an_image_for_another_architecture_is_refused(tmp_path: Path) -> None:
    for name in (
        f"docker-archive:{docker(tmp_path, 'arm64')}",
        f"oci-archive:{oci(tmp_path / 'oci.tar', 'arm64')}",
    ):
        with sentences.raises("base-unusable", "docker pull --platform linux/amd64 IMAGE"):
            base_image.find(name, "amd64")
        assert base_image.find(name, "arm64").file


def test_an_index_of_several_architectures_has_the_right_one(tmp_path: Path) -> None:
    documents: dict[str, Any] = {}
    platforms = [{"platform": {"architecture": name}} for name in ("amd64", "arm64")]
    documents["index.json"] = {"manifests": [{"digest": blob(documents, {"manifests": platforms})}]}
    file = archive(tmp_path / "all.tar", documents)
    assert base_image.find(f"oci-archive:{file}", "arm64").bootstrap == "oci-archive"
    with sentences.raises("base-unusable", "docker pull --platform linux/riscv64 IMAGE"):
        base_image.find(f"oci-archive:{file}", "riscv64")


def test_a_registrys_name_is_taken_as_it_is() -> None:
    base = base_image.find("host:5000/debian:12-slim", image_catalogue.image("cpu").architecture)
    assert (base.bootstrap, base.source, base.file) == ("docker", "host:5000/debian:12-slim", None)
