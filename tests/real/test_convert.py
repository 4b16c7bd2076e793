"""A Dockerfile is converted, the definition built as it is, and the image run."""

from __future__ import annotations

from .conftest import ended, succeeded
from .servers import registry
from .yard import Yard, yard

__all__ = ["yard"]

DOCKERFILE = """\
ARG TAG=one
FROM {host}/team/base:${{TAG}} AS maker
WORKDIR /made here
COPY . .
COPY "one file.txt" sub/renamed
RUN cd / && echo "$PWD" > /where
RUN pwd >> /where \\
    # not a command
    && cat /where
RUN <<THE_END
  for word in a b; do
    echo "$word" >> letters
  done
THE_END

FROM maker AS unused
RUN false

FROM {host}/team/base:${{TAG}}
ARG COLOR=blue
ENV SEEN="$COLOR and \\"quoted\\"" PATH=/opt/bin:$PATH
LABEL color=$COLOR
COPY --from=maker "/made here" /opt/all
COPY --from=maker --chmod=644 /where /opt/where
COPY <<SCRIPT /opt/bin/show
#!/bin/sh
for word in "\\$@"; do echo "[\\$word]"; done
echo "\\$SEEN \\$PWD"
SCRIPT
RUN chmod 755 /opt/bin/show
WORKDIR /opt
HEALTHCHECK CMD true
USER nobody
ENTRYPOINT ["show", "it's"]
CMD ["by default"]
"""
PUSH = """
apptainer build --sandbox box shell.sif > /dev/null 2>&1
python3 /opt/kit/tests/real/make_oci.py box amd64 one http://{}/v2/team/base
"""


def test_a_dockerfile_is_converted_built_and_run(yard: Yard) -> None:
    yard.sh("mkdir -p project/data; cd project; echo 1 > 'one file.txt'; echo 2 > data/two")
    with registry(yard, "registry") as server:
        yard.sh(PUSH.format(server.host))
        yard.write("project/Dockerfile", DOCKERFILE.format(host=server.host))
        done = succeeded(yard.runner("convert", "project/Dockerfile", "-o", "project/my.def"))
        lost = [line.split(":")[0].strip() for line in done.stderr.splitlines()[1:-1]]
        assert done.stderr.endswith("wrote project/my.def; next: runner build project/my.def\n")
        assert lost == ["line 2", "line 19", "line 32", "line 33"]
        succeeded(
            yard.build("project/my.def", "-o", "converted.sif", "--build-arg", "COLOR=light green")
        )
    answer = 'light green and "quoted" /opt\n'
    run = "apptainer run converted.sif"
    assert yard.sh(run) == f"[it's]\n[by default]\n{answer}"
    assert yard.sh(f"{run} x 'y z'") == f"[it's]\n[x]\n[y z]\n{answer}"
    inside = "cd /opt/all; cat letters 'one file.txt' sub/renamed data/two; cat /opt/where"
    found = yard.sh(f'apptainer exec converted.sif sh -c "{inside}"').splitlines()
    assert found == ["a", "b", "1", "1", "2", "/", "/made here"]
    assert "color: light green" in yard.sh("apptainer inspect converted.sif")


def test_what_is_no_dockerfile(yard: Yard) -> None:
    yard.write("page.html", "<html>\n")
    ended(yard.runner("convert", "page.html"), 2, "page.html, line 1: not an instruction")
    ended(yard.runner("convert", "absent"), 2)
    ended(yard.runner("convert", "base"), 2)
