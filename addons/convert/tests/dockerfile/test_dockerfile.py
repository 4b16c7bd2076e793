"""Dockerfiles become definitions: the whole text of one, and what each instruction turns into."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from runner_convert.dockerfile.convert import convert
from runner_convert.dockerfile.copies import COPY
from runner_convert.dockerfile.copy_sources import TAKE
from runner_convert.dockerfile.parse import pairs, parse
from runner_convert.dockerfile.sections import HOME, OPEN_HOMES
from tests.unit import sentences

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
DEFINITION = f"""\
Bootstrap: docker
From: debian:12-slim
Stage: compiler

%setup
    {TAKE % "/.copied"}
    take 1 hello.c

%post
    umask 022
    {COPY}
    mkdir -p /src
    cd /src
    copy 0:0 /src/ /.copied/1/hello.c
    (cc -o hello hello.c && \\
    strip hello)

Bootstrap: docker
From: debian:12-slim
Stage: stage1

%arguments
    GREETING=good day

%files from compiler
    /src/hello /.copied/1/hello

%labels
    org.example.kind small example
    greeting {{{{ GREETING }}}}

%post
    umask 022
    {COPY}
    {HOME}
    export GREETING="{{{{ GREETING }}}}"
    export HELLO_GREETING="{{{{ GREETING }}}}"
    export PATH="/opt/bin:$PATH"
    copy 0:0 /opt/bin/hello /.copied/1/hello
    mkdir -p /work
    cd /work
    HOME=$(home nobody); HOME=${{HOME:-/}}
    rm -rf /.copied
    {OPEN_HOMES}

%environment
    export HELLO_GREETING="{{{{ GREETING }}}}"
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
    made = convert(folder / "Dockerfile", text)
    assert made.refused == ""
    return made.text, [str(note) for note in made.notes]


def test_what_apptainer_would_refuse_is_said_of_the_definition(tmp_path: Path) -> None:
    made = convert(tmp_path / "Dockerfile", "FROM $BASE\nEXPOSE 80\n", "", "my.def")
    assert made.refused.startswith("my.def, line 2: 'BASE' has no value")
    assert [note.line for note in made.notes] == [1, 2]


def test_a_whole_dockerfile(tmp_path: Path) -> None:
    (tmp_path / "hello.c").write_text("")
    made, notes = converted(tmp_path, WHOLE)
    assert made == DEFINITION
    assert [note.split(":")[0] for note in notes] == ["line 3", "line 16"]
    sentences.said("\n".join(notes))


def test_lines_may_end_as_on_windows(tmp_path: Path) -> None:
    (tmp_path / "hello.c").write_text("")
    assert converted(tmp_path, WHOLE.replace("\n", "\r\n"))[0] == DEFINITION


def part(tmp_path: Path, text: str) -> str:
    """What instructions turn into, below the header."""
    made = converted(tmp_path, f"FROM a\n{text}\n")[0].partition("From: a\n")[2].strip()
    return made.replace("    umask 022\n", "", 1).replace(f"    {COPY}\n", "")


@pytest.mark.parametrize(
    ("text", "made"),
    [
        ("RUN a \\\n  b", "%post\n    a \\\n  b"),
        ("RUN USERS=2 a", "%post\n    USERS=2 a"),
        ("RUN a && b", "%post\n    (a && b)"),
        ("RUN a; b", "%post\n    (set +e; a; b)"),
        ("RUN A=1", "%post\n    (A=1)"),
        ("RUN echo 'a; b' ${C} $(d)", "%post\n    echo 'a; b' ${C} $(d)"),
        ("RUN <<E\na\n\nb\nE", "/bin/sh -c 'a\n\nb'"),
        ('RUN ["a", "b c"]', "%post\n    a 'b c'"),
        ("RUN cd /x && make", "%post\n    (cd /x && make)"),
        ("RUN export A=1 # why", "%post\n    (\nexport A=1 # why\n    )"),
        ('SHELL ["/bin/bash", "-ec"]\nRUN a "b"', "%post\n    /bin/bash -ec 'a \"b\"'"),
        ("RUN <<E\n#!/usr/bin/env python3\n1\nE", "printf '%s\\n' '#!/usr/bin/env python3\n1' > "),
        ("RUN <<E bash -e\na\nE", "%post\n    <<E bash -e\na\nE"),
        ("RUN python3 <<E > /x\n1\nE", "%post\n    python3 <<E > /x\n1\nE"),
        ("RUN cat <<E\n %x\nE", "%post\n    /bin/sh -c 'cat <<E\n ''%x\nE'"),
        ("RUN echo {{ x }}", "%post\n    /bin/sh -c 'echo {''{ x }}'"),
        ("RUN echo $((1<<2))", "(set +e; echo $((1<<2)))"),
        ("RUN pip install --user a", "%post\n    pip install a"),
        ('RUN ["pip", "install", "--user", "a"]', "%post\n    pip install a"),
        ("RUN python -m ipykernel install --user --name=a", "ipykernel install --name=a"),
        ("RUN echo '{ \\\n a' > /x", "%post\n    echo '{  a' > /x"),
        ("RUN a # b \\\n && c", "%post\n    (\na # b  && c\n    )"),
        ("ENV HOME=/x\nRUN a $HOME", '%post\n    export HOME="/x"\n    a $HOME\n'),
        ('COPY --chown="5:6" y /z', "copy 5:6 /z /.copied/1/y"),
        ("COPY <<E /d/f\n$\nE", "'$' > /.copied/1/E\n    copy 0:0 /d/f /.copied/1/E"),
        ("ENV A=1\nCOPY <<E /f\n$A\nE", "printf '%s\\n' 1 > "),
        ("ENV A=${N:-1}\nCOPY <<E /f\n$A\nE", "printf '%s\\n' 1 > "),
        ('VOLUME ["/data", "/b"]', "%post\n    mkdir -p /data\n    mkdir -p /b"),
        ("ENV A=1\nCOPY <<'E' /f\n$A\nE", "printf '%s\\n' '$A' > "),
        ("MAINTAINER A B", "%labels\n    org.opencontainers.image.authors A B"),
        ("LABEL a=b c='d  e'", "%labels\n    a b\n    c d e"),
        ("ENV A b c", '%environment\n    export A="b c"'),
        ('ENV A="x \\"y\\" $B" C=\'$D\'', '    export A="x \\"y\\" $B"\n    export C="\\$D"'),
        ('ENV A="$(a)" B=$(b)', 'export A="\\$(a)"\n    export B="\\$(b)"'),
        ("ENV A=1 B=$A:$B", '    export B="$A:$B"\n    export A="1"'),
        ("ENV C=3 B=$C A=$B", '    export A="$B"\n    export B="$C"\n    export C="3"'),
        ("ENV A=$B B=$A", 'export B="$A"'),
        ("ENV A=1\nENV A=2 B=$A", '    export A="2"\n    export B="1"'),
        ("ARG A=1\nENV A=2\nARG A\nRUN x", 'export A="2"\n    x'),
        ("ARG A=1\nARG A\nENV B=$A", "%arguments\n    A=1\n"),
        ("ARG A\nRUN x", '    [ ! "{{ A }}" ] || export A="{{ A }}"\n    x'),
        ("ARG A=d\nCOPY $A/* /z/", "take 1 '{{ A }}/'*\n"),
        ("WORKDIR /a\nWORKDIR b", "mkdir -p /a/b\n    cd /a/b"),
        ("ADD https://x.example/y.tgz /z/", "curl -fsSL https://x.example/y.tgz -o "),
        ("ADD https://x.example/y.tgz /z/", "copy 0:0 /z/ /.copied/1/y.tgz"),
        ("ADD y.tar.gz /z", 'tar -xpf y.tar.gz -C "$APPTAINER_ROOTFS/.copied/1"'),
        ("ADD --unpack=false y.tar.gz /z", "take 1 y.tar.gz"),
        ("ADD https://x.example/y.git#v1:sub /z", "checkout --quiet v1 || "),
        ("ADD https://x.example/y.git#v1:sub /z", "copy 0:0 /z /.copied/1/sub"),
        ("ADD --chmod=755 y /z", "chmod -R 755 /.copied/1/y\n    copy 0:0 /z /.copied/1/y"),
        ("COPY --chown=ann y /z", "chown -hR ann: /.copied/1/y\n    copy ann: /z /.copied/1/y"),
        ("COPY --chown=$U:$G y /h/${N}/", 'copy "${U}:${G}" "/h/${N}/" /.copied/1/y'),
        ("COPY --chown=$U y $N/", 'copy "${U}:" "${N}/" /.copied/1/y'),
        ("USER $U:$G\nRUN a", 'HOME=$(home "${U}"); HOME=${HOME:-/}\n    a'),
        ('WORKDIR "/h/$N"', 'mkdir -p "/h/${N}"\n    cd "/h/${N}"'),
        (
            "ARG V=1\nRUN a $V\nARG V=2\nRUN b $V",
            'export V="{{ V }}"\n    a $V\n    export V="2"\n    b $V',
        ),
        ("COPY --chown=5 y /z", "copy 5:5 /z /.copied/1/y"),
        ('COPY ["a b", "c/"]', "copy 0:0 /c/ '/.copied/1/a b'"),
        ("WORKDIR /w\nCOPY folder .", "copy 0:0 /w/ /.copied/1/folder"),
        ("COPY f* /z/", "take 1 folder"),
        ("COPY --from=b:1 /x/* /y/", "    /x/* /.copied/1/\n"),
        ("RUN --mount=type=cache,target=/c a", "mounted /c ''\n    cd /\n    a\n    unmounted /c"),
        ("RUN \\\n  --mount=type=cache,target=/c \\\n  a", "mounted /c ''\n    cd /\n    a\n"),
        ("CMD a b", "[ $# -gt 0 ] || set -- /bin/sh -c 'a b'\n"),
        ("CMD a b", 'base-runscript "$@"\n    exec "$@"'),
        ("ENTRYPOINT a b", "%runscript\n    exec /bin/sh -c 'a b' \"$@\"\n"),
        ('SHELL ["s", "-x"]\nENTRYPOINT a b', "%runscript\n    exec s -x 'a b' \"$@\"\n"),
        ('ENTRYPOINT ["a"]', '%runscript\n    exec a "$@"\n'),
        ("ENTRYPOINT []", '%runscript\n    exec "$@"\n'),
    ],
)
def test_one_instruction(tmp_path: Path, text: str, made: str) -> None:
    (tmp_path / "folder").mkdir()
    assert made in part(tmp_path, text)


def test_what_pip_installs_for_a_user_may_be_copied_from_a_stage(tmp_path: Path) -> None:
    text = "FROM a AS one\nRUN pip install --user b\nFROM c\nCOPY --from=one /r/.local /r/.local"
    made, notes = converted(tmp_path, text)
    assert "    pip install --user b\n" in made
    assert made.count('    export PYTHONUSERBASE="/r/.local"\n') == 2
    assert notes == []


@pytest.mark.parametrize("again", ["ARG V", "ARG V=1"])
def test_the_base_does_not_change_with_an_argument(tmp_path: Path, again: str) -> None:
    _, notes = converted(tmp_path, f"ARG V=1\nFROM a:$V\n{again}\nRUN echo $V")
    (note,) = notes
    sentences.said(note)


@pytest.mark.parametrize(
    ("word", "value"), [("ENV UID=5", "5"), ("ARG UID=5", "{{ UID }}"), ("ARG UID", "{{ UID }}")]
)
def test_a_variable_that_bash_does_not_let_be_set(tmp_path: Path, word: str, value: str) -> None:
    made, notes = converted(tmp_path, f'FROM "a"\n{word}\nRUN b $UID')
    assert "From: a\n" in made
    assert '    [ "${BASH_VERSION-}" ] || ' in made
    assert f'|| export UID="{value}"\n' in made
    assert "%environment" not in made
    assert any("%post has root's own, as UID 0" in note for note in notes)


def test_without_an_entry_the_bases_own_stays(tmp_path: Path) -> None:
    assert "%runscript" not in part(tmp_path, "RUN a")


def test_a_stage_is_not_chosen_by_an_argument_of_the_build(tmp_path: Path) -> None:
    text = "FROM a AS with-x\nFROM a AS with-y\nARG X\nFROM with-${MODE}\n"
    with sentences.raises("stage-undecided"):
        converted(tmp_path, f"ARG MODE\n{text}")
    assert "From: a\n" in converted(tmp_path, f"ARG MODE=x\n{text}")[0]


def test_the_names_of_stages_have_no_case(tmp_path: Path) -> None:
    made, _ = converted(tmp_path, "FROM a AS Builder\nRUN 1\nFROM b\nCOPY --from=builder /x /x")
    assert "\n%files from Builder\n" in made
    assert "From: builder" not in made


def test_a_stage_to_end_with(tmp_path: Path) -> None:
    text = "FROM a AS one\nRUN 1\nFROM b AS two\nRUN 2\n"
    assert "From: b" not in convert(tmp_path / "Dockerfile", text, "One").text
    with sentences.raises("stage-missing"):
        convert(tmp_path / "Dockerfile", text, "three")


def test_nothing_is_run_in_an_image_without_a_shell(tmp_path: Path) -> None:
    text = "FROM a AS one\nRUN 1\nFROM scratch\nENV X=1\nWORKDIR /w\nCOPY --from=one /x y/\nCMD z"
    made, _ = converted(tmp_path, text)
    assert "    copy 0:0 /.copied/1/w/y/ /x\n" in made
    last = made.partition("Bootstrap: scratch")[2]
    assert "%files from one\n    /.copied/1/* /\n" in last
    assert "%post" not in last


def test_what_is_ignored_is_left_out(tmp_path: Path) -> None:
    for name in ("a/__pycache__/x", "a/b.py", "secret", "keep/secret", "my.def"):
        (tmp_path / name).parent.mkdir(exist_ok=True, parents=True)
        (tmp_path / name).touch()
    (tmp_path / ".dockerignore").write_text("**/__pycache__\n# no\nsecret\nkeep\n!keep/secret\n")
    made = convert(tmp_path / "Dockerfile", "FROM a\nCOPY . /x\n", "", "my.def").text
    left_out = "--exclude=./a/__pycache__ --exclude=./secret --exclude=./my.def --exclude=./my.sif"
    assert f"    take 1 {left_out} .\n" in made


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("$A", "a.b.c"),
        ("${A}x", "a.b.cx"),
        ("${A:-x}${E:-x}${N:-x}", "a.b.cxx"),
        ("${A-x}${E-x}${N-x}", "a.b.cx"),
        ("${A:+x}${E:+x}${N:+x}", "x"),
        ("${A+x}${E+x}${N+x}", "xx"),
        ("${N:-${A}/${E:-y}}", "a.b.c/y"),
        ("${A#*.}", "b.c"),
        ("${A##*.}", "c"),
        ("${A%.*}", "a.b"),
        ("${A%%.*}", "a"),
        ("${A/./-}", "a-b.c"),
        ("${A//./-}", "a-b-c"),
        ("\\$A", "$A"),
    ],
)
def test_each_form_of_a_variable(tmp_path: Path, text: str, value: str) -> None:
    made = part(tmp_path, f"ENV A=a.b.c E=\nWORKDIR /w/{text}\nRUN x")
    assert f"    cd {shlex.quote(f'/w/{value}'.rstrip('/'))}\n" in made


def test_what_the_last_image_does_not_need_is_left_out(tmp_path: Path) -> None:
    text = "FROM a AS one\nRUN 1\nFROM one AS two\nRUN 2\nFROM b\nCOPY --from=x.example/c:1 /y /y"
    made, notes = converted(tmp_path, f"{text}\nHEALTHCHECK CMD x".replace("RUN 2", "EXPOSE 2"))
    assert [note[:6] for note in notes] == ["line 7"]
    assert "From: a" not in made
    assert "Stage: image0" in made
    assert "%files from image0\n    /y /.copied/1/y" in made


def test_a_stage_may_go_on_where_another_ends(tmp_path: Path) -> None:
    made, notes = converted(tmp_path, "FROM a AS one\nENV X=1\nRUN 1\nFROM one\nRUN 2\n")
    assert made.startswith(
        'Bootstrap: docker\nFrom: a\n\n%post\n    umask 022\n    export X="1"\n    1\n    2\n'
    )
    (note,) = notes
    sentences.said(note)


def test_nothing_below_is_something(tmp_path: Path) -> None:
    assert converted(tmp_path, "FROM scratch\nRUN a")[0].startswith("Bootstrap: scratch\n\n%post")


@pytest.mark.parametrize(
    "text",
    [
        "HEALTHCHECK CMD x",
        "ONBUILD RUN x",
        "STOPSIGNAL 9",
        "RUN a && rm -rf /root/x /tmp/*",
        "EXPOSE 80",
        "VOLUME /x",
        "RUN --mount=type=secret,id=x y",
        "RUN source /e && a",
        "RUN if [[ $A == b* ]]; then c; fi",
        "RUN --network=none y",
        "ARG X",
        "ARG X\nENV Y=${X:-2}",
        "ENV Y=$X/z",
        "LABEL a=$NIX",
        "ENV HF_HOME=/root/.cache",
        "COPY ../here /x",
        "COPY absent /x",
        "FROM scratch\nADD https://x.example/y /y",
        "FROM scratch\nADD https://x.example/y.git /y",
        "FROM scratch\nADD root.tar.xz /",
        "FROM scratch\nCOPY <<E /x\nE",
        "ENV HOME=/x",
        "ARG A=1 # is one",
        "ARG [A\nARG B)=$A",
        "ARG A=1\nARG B=$A/2",
        "COPY here gone* /x/",
        "COPY here x",
        "WORKDIR x",
        "COPY --exclude=a folder /x",
        "FROM scratch\nCOPY --from=b:1 /x /y",
        "FROM scratch\nCOPY folder /y",
        "COPY folder /x",
        "COPY folder/gone /x",
        "RUN pip install --user x",
        "RUN pip install horovod",
        "RUN X=1 pip3 install -q 'horovod[torch]==0.28.1'",
        "NONSENSE x",
    ],
)
def test_what_is_lost_is_listed(tmp_path: Path, text: str) -> None:
    (tmp_path / "here").write_text("")
    (tmp_path / ".dockerignore").write_text("folder/gone\n")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder/gone").write_text("")
    _, notes = converted(tmp_path, f"FROM a\n{text}\n")
    assert notes
    sentences.said("\n".join(notes))


def test_an_argument_without_a_default_is_told_once(tmp_path: Path) -> None:
    _, notes = converted(tmp_path, "FROM a AS b\nARG X\nENV Y=1\nFROM b\nARG X\nARG Y\n")
    (note,) = (note for note in notes if "ARG X" in note)
    sentences.said(note)


@pytest.mark.parametrize(
    ("base", "command", "said"),
    [
        ("nvcr.io/nvidia/pytorch:25.01-py3", "git clone x && cd x", True),
        ("nvcr.io/nvidia/pytorch:25.01-py3", "cd /opt && git clone x", False),
        ("a/b", "apt-get update && cd ~ && git clone x", False),
        ("a/b", "git clone x /opt/x && wget x -O /tmp/y", False),
        ("a/b", "wget -qO- x | sh", False),
        ("a/b", "apt-get update && \\\n  git clone x", True),
        ("nvidia/cuda:12.4.1-devel-ubuntu22.04", "git clone x", False),
        ("ubuntu:24.04", "wget x", False),
        ("a/b", "apt-get install -y wget", False),
    ],
)
def test_files_that_go_to_the_bases_working_directory_are_told(
    tmp_path: Path, base: str, command: str, said: bool
) -> None:
    for folder in ("", "WORKDIR /w\n"):
        _, notes = converted(tmp_path, f"FROM {base}\n{folder}RUN {command}\n")
        told = any("RUN in the base's working directory" in note for note in notes)
        assert told is (said and not folder)


@pytest.mark.parametrize(
    ("text", "id"),
    [
        ("RUN x\n", "not-a-dockerfile"),
        ("FROM a\n{ x }\n", "instruction-unknown"),
        ("ARG X=1\nFROM \n", "instruction-empty"),
        ("# escape=`\nFROM a\n", "escape-character"),
        ("# syntax=x\n# escape = `\nFROM a\n", "escape-character"),
        ("FROM a\nRUN cat <<E\n", "here-document-open"),
    ],
)
def test_what_is_no_dockerfile_is_refused(text: str, id: str) -> None:
    with sentences.raises(id):
        parse(text, "Dockerfile")


def test_quoted_settings_are_read_as_docker_does() -> None:
    assert pairs('a=b c=\'d e\' f="g\\"h" i=j\\ k') == [
        ("a", "b"),
        ("c", "d e"),
        ("f", 'g\\"h'),
        ("i", "j k"),
    ]


@pytest.mark.parametrize(
    ("instruction", "path"),
    [
        ("COPY link /x", "link"),
        ("COPY folder/deep/link /x", "folder/deep/link"),
        ("COPY folder/deep/* /x/", "folder/deep/link"),
        ("COPY ../link /x", "link"),
        ("ARG FROM=../link\nCOPY $FROM /x", "link"),
        ("ADD link https://example.org/x /x/", "link"),
    ],
)
def test_what_leads_out_of_the_folder_is_not_copied(
    tmp_path: Path, instruction: str, path: str
) -> None:
    context = tmp_path / "context"
    (context / "folder/deep").mkdir(parents=True)
    for link in (context / "link", context / "folder/deep/link"):
        link.symlink_to("/etc/hostname")
    with sentences.raises("copy-outside-context") as caught:
        convert(context / "Dockerfile", f"FROM debian:12\n{instruction}\n")
    assert caught.value.evidence.startswith(f"{path} is ")


def test_links_in_a_folder_stay_links_and_one_that_is_named_is_followed(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder/away").symlink_to("/etc/hostname")
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to("file")
    made, notes = converted(tmp_path, "FROM a\nCOPY link folder /x/\n")
    assert "    cp -aH --no-preserve=ownership link " in made
    assert "    take 1 folder\n" in made
    assert notes == []


@pytest.mark.parametrize(
    "text",
    [
        'FROM a\nSHELL ["/bin/bash", "-c"]\nRUN source /e',
        "FROM rockylinux:9\nRUN source /e",
        "FROM python:3-alpine AS b\nFROM b\nRUN set -o pipefail; source /e; [[ a ]]",
        "FROM a\nRUN echo 'source /e' >> /f; sed s/[[:space:]]// /g",
        'FROM a\nRUN ["bash", "-c", "source /e"]',
    ],
)
def test_what_sh_runs_too_needs_no_bash(tmp_path: Path, text: str) -> None:
    assert not any("bash" in note for note in converted(tmp_path, text)[1])
