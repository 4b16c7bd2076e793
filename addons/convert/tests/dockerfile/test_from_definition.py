"""Definitions become Dockerfiles by spython, and what it would lose is refused by its name."""

from __future__ import annotations

from pathlib import Path

import pytest

from runner_convert.dockerfile.from_definition import convert
from tests.unit import sentences

HEAD = "Bootstrap: docker\nFrom: debian:12-slim\n"
WHOLE = """\
# Built by hand: apptainer build my.sif my.def
Bootstrap: docker
From: Registry.example.org:5000/team/Base:3.11-Slim  # with a tag in capitals

%labels
    Author Jane "J" Doe, $5
    USER x
%environment
    # where the tools are
    export PATH=/opt/bin:$PATH
    export USER_NAME="a b" GREETING='$HOME'
    set -a
    OTHER=${GREETING}/1
    export OTHER
%files
    train.py /opt/
    data /opt/data
    data /opt
%post
    apt-get update
    if true; then
        cd /srv
    fi
    cat > text <<EOF
a "$USER"

RUN
EOF
%runscript
    exec python3 "/opt/train.py" "$@"
"""
DOCKERFILE = """\
FROM Registry.example.org:5000/team/Base:3.11-Slim AS post
COPY train.py /opt/
COPY data /opt/data/
COPY data /opt/data/
USER root
RUN <<'END_OF_POST'
set -e
cd /
    apt-get update
    if true; then
        cd /srv
    fi
    cat > text <<EOF
a "$USER"

RUN
EOF
END_OF_POST
FROM post AS image
LABEL "Author"="Jane \\"J\\" Doe, \\$5"
LABEL "USER"="x"
ENV PATH=/opt/bin:$PATH
ENV USER_NAME="a b"
ENV GREETING='$HOME'
ENV OTHER=${GREETING}/1
CMD []
ENTRYPOINT ["/bin/sh", "-c", "    exec python3 \\"/opt/train.py\\" \\"$@\\"", "runscript"]
"""


def context(folder: Path) -> None:
    """Fill a build context."""
    (folder / "data").mkdir()
    for name in ("train.py", "other.py", "data/one file"):
        (folder / name).write_text("1")
    (folder / "link").symlink_to("train.py")


def test_a_whole_definition(tmp_path: Path) -> None:
    context(tmp_path)
    made = convert(tmp_path / "my.def", WHOLE)
    assert (made.text, made.notes) == (DOCKERFILE, [])


TEMPLATE = "Bootstrap: docker\nFrom: a:{{ TAG }}\n%arguments\n  TAG=1\n"
# With the line that a Dockerfile cannot say.
CASES = {
    "Bootstrap: localimage\nFrom: a.sif\n%post\n  true\n": 1,
    "Bootstrap: docker-daemon\nFrom: a:1\n": 1,
    f"{HEAD}MirrorURL: http://x\n": 3,
    TEMPLATE: 2,
    f"{HEAD}%post\n  echo {{{{ NAME }}}}\n": 4,
    f"{HEAD}%setup\n  touch x\n": 3,
    f"{HEAD}%pre\n  touch x\n": 3,
    f"{HEAD}Stage: one\n%post\n  true\n": 3,
    f"{HEAD}%post\n  true\n{HEAD}%post\n  true\n": 5,
    f"{HEAD}%files from one\n  /a /b\n": 3,
    f"{HEAD}%post -c /bin/bash\n  true\n": 3,
    f"{HEAD}%apprun x\n  true\n": 3,
    f"{HEAD}%appinstall x\n  true\n": 3,
    f"{HEAD}%environment\n  . /opt/env.sh\n": 4,
    f"{HEAD}%environment\n  export A=$(date)\n": 4,
    f"{HEAD}%environment\n  export A=`date`\n": 4,
    f'{HEAD}%environment\n  export A="$(date)"\n': 4,
    f"{HEAD}%environment\n  export A=1; B=2\n": 4,
    f"{HEAD}%environment\n  export A=1 && ls\n": 4,
    f"{HEAD}%environment\n  export A=${{B%/*}}\n": 4,
    f"{HEAD}%environment\n  if true; then\n  export A=1\n  fi\n": 4,
    f"{HEAD}%environment\n  unset A\n": 4,
    f"{HEAD}%post\n  echo A=1 >> $APPTAINER_ENVIRONMENT\n": 4,
    f"{HEAD}%post\n  cp a ${{SINGULARITY_ROOTFS}}/a\n": 4,
    f"{HEAD}%runscript\n#!/usr/bin/python3\nprint(1)\n": 4,
    "Bootstrap: docker\n%post\n  true\n": 1,
}


@pytest.mark.parametrize(("text", "line"), [*CASES.items()])
def test_what_a_dockerfile_cannot_say_is_named(tmp_path: Path, text: str, line: int) -> None:
    with sentences.raises("definition-not-convertible") as caught:
        convert(tmp_path / "my.def", text)
    assert caught.value.evidence.startswith(f"line {line}: ")


@pytest.mark.parametrize(
    "files",
    [
        "/etc/hosts /opt/",
        "../a /opt/",
        "absent /opt/",
        "*.txt /opt/",
        "*.py /opt/new",
        "link /opt/",
        "a b c",
        "'a /opt",
    ],
)
def test_files_that_cannot_be_copied_are_named(tmp_path: Path, files: str) -> None:
    context(tmp_path)
    with sentences.raises("definition-not-convertible") as caught:
        convert(tmp_path / "my.def", f"{HEAD}%files\n  {files}\n")
    assert caught.value.evidence.startswith(f"line 4: %files, {files}: ")


@pytest.mark.parametrize(
    ("line", "copied"),
    [
        ("train.py /opt/", "train.py /opt/"),
        ("train.py /opt", "train.py /opt/"),
        ("train.py /opt/a.py", "train.py /opt/a.py"),
        ("train.py", "train.py /train.py"),
        ("o*.py /opt/new/", "o*.py /opt/new/"),
        ("data /opt/new", "data /opt/new/"),
        ("data /opt/new/", "data /opt/new/data/"),
        ("data/ /usr/local", "data /usr/local/data/"),
        ("'data/one file' /opt/", '["data/one file", "/opt/"]'),
    ],
)
def test_files(tmp_path: Path, line: str, copied: str) -> None:
    context(tmp_path)
    made = convert(tmp_path / "my.def", f"{HEAD}%files\n  {line}  # why\n")
    assert f"\nCOPY {copied}\n" in made.text


def test_the_context_may_be_named_from_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    context(tmp_path)
    monkeypatch.chdir(tmp_path / "data")
    made = convert(Path("../my.def"), f"{HEAD}%files\n  train.py /opt/\n")
    assert "COPY train.py /opt/\n" in made.text


def test_a_folder_that_a_line_before_has_made_is_there(tmp_path: Path) -> None:
    context(tmp_path)
    text = f"{HEAD}%files\n  train.py /new/place/\n  data /new/place\n  data /new/other\n"
    made = convert(tmp_path / "my.def", text).text
    assert "COPY data /new/place/data/\n" in made
    assert "COPY data /new/other/\n" in made


def test_what_is_left_out_is_told(tmp_path: Path) -> None:
    text = f"{HEAD}%environment\n  export A=$HOME/a B=$A\n%help\n  x\n%test\n  true\n"
    notes = list(map(str, convert(tmp_path / "my.def", text).notes))
    assert [note.split(": ")[0] for note in notes] == ["line 5", "line 7", "line 4"]
    sentences.said("\n".join(notes))


@pytest.mark.parametrize(
    ("text", "id"),
    [
        ("", "bootstrap-missing"),
        ("<html>\n", "bootstrap-missing"),
        ("Bootstrap docker\n", "header-malformed"),
        (f"{HEAD}%pots\n  true\n", "section-unknown"),
        (f"{HEAD}nothing\n", "header-malformed"),
    ],
)
def test_what_is_no_definition_is_refused(tmp_path: Path, text: str, id: str) -> None:
    with sentences.raises(id):
        convert(tmp_path / "my.def", text)


@pytest.mark.parametrize(
    "text",
    [f"{HEAD}%post\n  cat << END_OF_POST\nx\nEND_OF_POST\n", f"{HEAD}%post\n  echo END_OF_POST_\n"],
)
def test_the_end_of_the_script_is_not_in_it(tmp_path: Path, text: str) -> None:
    made = convert(tmp_path / "my.def", text).text
    end = made.split("RUN <<'")[1].split("'")[0]
    assert made.count(f"\n{end}\n") == 1


def test_words_of_a_header_in_a_script_are_text(tmp_path: Path) -> None:
    text = f'{HEAD}%post\n  echo "bootstrap: yum" > /a; echo "From: x" "Stage: y" >> /a\n'
    assert 'echo "bootstrap: yum"' in convert(tmp_path / "my.def", text).text


def test_what_spython_cannot_read_is_refused(tmp_path: Path) -> None:
    with sentences.raises("definition-not-parsed"):
        convert(tmp_path / "my.def", f"{HEAD}%labels\n  kind bootstrap: yum\n")


@pytest.mark.parametrize(
    "name",
    [
        "debian",
        "debian:12",
        "h:5000/a/b:1.0",
        "a/b@sha256:0123",
        "h.org/a/b:1@sha256:01",
        "a_b/c-d",
    ],
)
def test_the_name_of_an_image(tmp_path: Path, name: str) -> None:
    text = f"Bootstrap: docker\nFrom: {name}\n%post\n  true\n"
    assert convert(tmp_path / "my.def", text).text.startswith(f"FROM {name} AS post\n")


@pytest.mark.parametrize("name", ["a:b:c", "a b", "http://x/y", "/a", "a@b", "$BASE"])
def test_what_is_no_name_of_an_image(tmp_path: Path, name: str) -> None:
    text = f"Bootstrap: docker\nFrom: {name}\n%post\n  true\n"
    with sentences.raises("definition-not-convertible"):
        convert(tmp_path / "my.def", text)
