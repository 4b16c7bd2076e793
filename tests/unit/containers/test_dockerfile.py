"""Dockerfiles become definitions: the whole text of one, and what each instruction turns into."""

from __future__ import annotations

from pathlib import Path

import pytest

from containers import definition
from containers.dockerfile.convert import convert
from containers.dockerfile.parse import pairs, parse
from runners.core.errors import Refused, UsageError

WHOLE = """\
# syntax=docker/dockerfile:1
ARG RELEASE=12
FROM debian:${RELEASE}-slim AS compiler
WORKDIR /src
COPY hello.c .
RUN cc -o hello hello.c && \\
    # a comment between
    strip hello

FROM debian:12-slim
ARG GREETING="good day"
ENV HELLO_GREETING=$GREETING PATH=/opt/bin:$PATH
LABEL org.example.kind="small example" greeting=$GREETING
COPY --from=compiler /src/hello /opt/bin/hello
WORKDIR /work
USER nobody
ENTRYPOINT ["hello", "a b"]
CMD ["--loud"]
"""
DEFINITION = """\
Bootstrap: docker
From: debian:12-slim
Stage: compiler

%files
    hello.c /src/

%post
    mkdir -p /src
    cd /src
    cc -o hello hello.c && \\
    strip hello

Bootstrap: docker
From: debian:12-slim
Stage: stage1

%arguments
    GREETING=good day

%files from compiler
    /src/hello /opt/bin/hello

%labels
    org.example.kind small example
    greeting {{ GREETING }}

%post
    export GREETING="{{ GREETING }}"
    export HELLO_GREETING="{{ GREETING }}"
    export PATH="/opt/bin:$PATH"
    mkdir -p /work
    cd /work

%environment
    export HELLO_GREETING="{{ GREETING }}"
    export PATH="/opt/bin:$PATH"

%runscript
    cd /work
    [ $# -gt 0 ] || set -- --loud
    exec hello 'a b' "$@"

%startscript
    cd /work
    [ $# -gt 0 ] || set -- --loud
    exec hello 'a b' "$@"
"""


def converted(folder: Path, text: str) -> tuple[str, list[str]]:
    """The definition, which must be a good one, and the notes."""
    made, notes = convert(folder / "Dockerfile", text)
    definition.check(made, "x.def", {})
    return made, [str(note) for note in notes]


def test_a_whole_dockerfile(tmp_path: Path) -> None:
    (tmp_path / "hello.c").write_text("")
    made, notes = converted(tmp_path, WHOLE)
    assert made == DEFINITION
    assert len(notes) == 1
    assert notes[0].startswith("line 16: USER nobody: in Apptainer everybody stays")


def part(tmp_path: Path, text: str) -> str:
    """What instructions turn into, below the header."""
    return converted(tmp_path, f"FROM a\n{text}\n")[0].partition("From: a\n")[2].strip()


@pytest.mark.parametrize(
    ("text", "made"),
    [
        ("RUN a \\\n  b", "%post\n    a \\\n  b"),
        ("RUN USERS=2 a", "%post\n    USERS=2 a"),
        ("RUN <<E\na\n\nb\nE", "a\n\nb\nE"),
        ("RUN a \\\n  label", "%post\n    a \\\n  label"),
        ('RUN ["a", "b c"]', "%post\n    a 'b c'"),
        ("RUN cd /x && make", "%post\n    (cd /x && make)"),
        ("RUN export A=1 # why", "%post\n    (\nexport A=1 # why\n    )"),
        ('SHELL ["/bin/bash", "-ec"]\nRUN a "b"', "%post\n    /bin/bash -ec 'a \"b\"'"),
        ("RUN <<E\nmake $x\nE", "%post\n    /bin/sh <<'E'\nmake $x\nE"),
        ("RUN <<E\n#!/usr/bin/env python3\n1\nE", "/usr/bin/env python3 <<'E'"),
        ("RUN python3 <<E > /x\n1\nE", "%post\n    python3 <<E > /x\n1\nE"),
        ("COPY <<E /d/f\n1\nE", "cat > /d/f <<E\n1\nE"),
        ("MAINTAINER A B", "%labels\n    org.opencontainers.image.authors A B"),
        ("LABEL a=b c='d  e'", "%labels\n    a b\n    c d e"),
        ("ENV A b c", '%environment\n    export A="b c"'),
        ('ENV A="x \\"y\\" $B" C=\'$D\'', '    export A="x \\"y\\" $B"\n    export C="\\$D"'),
        ("WORKDIR /a\nWORKDIR b", "mkdir -p /a/b\n    cd /a/b"),
        ("ADD https://x.example/y.tgz /z/", "curl -fsSL https://x.example/y.tgz -o /z/y.tgz"),
        ("ADD y.tar.gz /z", "mkdir -p /z && tar -xf /opt/.added/y.tar.gz -C /z"),
        ("ADD --chmod=755 y /z", "%files\n    y /z\n\n%post\n    chmod -R 755 /z"),
        ('COPY ["a b", "c/"]', '%files\n    "a b" /c/'),
        ("COPY folder /z", "%files\n    folder/. /z"),
        ("CMD a b", "[ $# -gt 0 ] || set -- /bin/sh -c 'a b'\n    exec \"$@\""),
        ("ENTRYPOINT a b", "%runscript\n    exec /bin/sh -c 'a b'\n"),
        ('ENTRYPOINT ["a"]', '%runscript\n    exec a "$@"\n'),
    ],
)
def test_one_instruction(text: str, made: str, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    assert made in part(tmp_path, text)


def test_without_an_entry_the_bases_own_stays(tmp_path: Path) -> None:
    assert "%runscript" not in part(tmp_path, "RUN a")


def test_what_the_last_image_does_not_need_is_left_out(tmp_path: Path) -> None:
    text = "FROM a AS one\nRUN 1\nFROM one AS two\nRUN 2\nFROM b\nCOPY --from=x.example/c:1 /y /y"
    made, _ = converted(tmp_path, text)
    assert "From: a" not in made
    assert "Stage: image0" in made
    assert "%files from image0\n    /y /y" in made


def test_a_stage_may_go_on_where_another_ends(tmp_path: Path) -> None:
    made, notes = converted(tmp_path, "FROM a AS one\nENV X=1\nRUN 1\nFROM one\nRUN 2\n")
    assert made.startswith('Bootstrap: docker\nFrom: a\n\n%post\n    export X="1"\n    1\n    2\n')
    assert notes == ["line 4: FROM one, a stage: the lines of that stage are repeated"]


def test_nothing_below_is_something(tmp_path: Path) -> None:
    assert converted(tmp_path, "FROM scratch\nRUN a")[0].startswith("Bootstrap: scratch\n\n%post")


@pytest.mark.parametrize(
    ("text", "note"),
    [
        ("HEALTHCHECK CMD x", "line 2: HEALTHCHECK CMD x: write a %test section"),
        ("ONBUILD RUN x", "line 2: ONBUILD RUN x: "),
        ("STOPSIGNAL 9", "line 2: STOPSIGNAL 9: "),
        ("EXPOSE 80", "line 2: EXPOSE 80: a container has the network of its host"),
        ("VOLUME /x", "line 2: VOLUME /x: bind a folder"),
        ("RUN --mount=type=secret,id=x y", "line 2: RUN --mount=type=secret,id=x: hand it over"),
        ("RUN --network=none y", "line 2: RUN --network=none: "),
        ("ARG X", "line 2: ARG X has no default: --build-arg X=..."),
        ("ARG X=1\nENV Y=${X:-2}", "line 3: ${X:...}: write {{ X }} in its place"),
        ("LABEL a=$NIX", "line 2: $NIX has no value here"),
        ("COPY absent /x", "line 2: absent is not beside the Dockerfile"),
        ("COPY --chown=a:b here /x", "line 2: --chown=a:b: "),
        ("COPY --from=b:1 /x /y", "line 2: COPY --from=b:1 /x /y: if it is a folder, write /x/."),
        ("RUN 1\nCOPY here /x", "line 3: COPY after RUN: %files come before all of %post"),
        ("COPY folder /x", "line 2: COPY folder: .dockerignore is not heard"),
        (
            "ADD https://x.example/y.git /y",
            "line 2: ADD https://x.example/y.git: write 'git clone'",
        ),
        ("NONSENSE x", "line 2: NONSENSE is not known"),
    ],
)
def test_what_is_lost_is_listed(text: str, note: str, tmp_path: Path) -> None:
    for name in ("here", ".dockerignore"):
        (tmp_path / name).write_text("")
    (tmp_path / "folder").mkdir()
    _, notes = converted(tmp_path, f"FROM a\n{text}\n")
    assert [said for said in notes if said.startswith(note)], notes


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("RUN x\n", "has no line FROM"),
        ("FROM a\n{ x }\n", "line 2: not an instruction"),
        ("ARG X=1\nFROM \n", "line 2: nothing follows FROM"),
        ("# escape=`\nFROM a\n", "another escape character"),
    ],
)
def test_what_is_no_dockerfile_is_refused(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        parse(text, "Dockerfile")


def test_quoted_settings_are_read_as_docker_does() -> None:
    assert pairs('a=b c=\'d e\' f="g\\"h" i=j\\ k') == [
        ("a", "b"),
        ("c", "d e"),
        ("f", 'g\\"h'),
        ("i", "j k"),
    ]


@pytest.mark.parametrize(
    ("instruction", "words"),
    [
        ("COPY link /x", "link is "),
        ("COPY folder /x", "folder/deep/link is "),
        ("COPY . /x", "is /etc/hostname"),
        ("COPY fo* /x", "folder/deep/link is "),
        ("COPY ../beside /x", "beside"),
        ("COPY ../not-there-yet /x", "not-there-yet"),
        ("ARG FROM=../beside\nCOPY $FROM /x", "beside"),
        ("ADD link https://example.org/x /x/", "link is "),
        ("ADD ../a.tar.gz /x", "a.tar.gz"),
    ],
)
def test_what_leads_out_of_the_folder_is_not_copied(
    tmp_path: Path, instruction: str, words: str
) -> None:
    context = tmp_path / "context"
    (context / "folder/deep").mkdir(parents=True)
    (tmp_path / "beside").touch()
    (tmp_path / "a.tar.gz").touch()
    for link in (context / "link", context / "folder/deep/link"):
        link.symlink_to("/etc/hostname")
    with pytest.raises(Refused, match=f"(?s)leads out of the Dockerfile's folder.*{words}"):
        convert(context / "Dockerfile", f"FROM debian:12\n{instruction}\n")


def test_a_link_within_the_folder_is_copied(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to("file")
    made, notes = convert(tmp_path / "Dockerfile", "FROM debian:12\nCOPY link /x\n")
    assert "link /x" in made
    assert notes == []
