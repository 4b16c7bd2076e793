"""Runtimes and launchers, with stand-ins: what bash makes of a script for each of them."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from runners import runtimes
from runners.contract.enums import Controller
from runners.contract.parts import TIDY
from runners.core import quoting
from runners.core.job_record import JobPaths
from runners.core.model import BindMount, GpuVendor, ImageInfo, RuntimeName
from runners.core.plan import Gpus, Plan, Variable, Where, Wireup
from runners.core.site import HostMpi
from runners.core.trainer import Trainer
from runners.launching import private_folder
from runners.runtimes import limits
from runners.script import environment, render

from .. import scripts, sentences
from ..programs import HOSTILE, program

# Writes what it was called with, and the environment; Python starts without what it does not need.
FAKE = """#!{python} -SE
import os, sys
with open({out!r}, "a", encoding="utf-8") as file:
    print(ascii([sys.argv, dict(os.environ)]), file=file)
"""
NAME = "a 0; $(touch x) é"


def run(
    tmp_path: Path, made: Plan, env: dict[str, str] | None = None
) -> tuple[list[str], dict[str, str]]:
    """Run the script with stand-ins for all launchers; return the last that started ranks."""
    folder = tmp_path / NAME
    (folder / "logs").mkdir(parents=True)
    (tmp_path / "bin").mkdir()
    out = tmp_path / "called"
    for name in ("srun", "mpiexec", "mpirun", "module", "scontrol", "python3"):
        called = out if name != "module" else tmp_path / "modules"
        program(tmp_path / "bin" / name, FAKE.format(python=sys.executable, out=str(called)))
    paths = JobPaths(folder)
    text = render.render(made, paths, str(folder))
    private_folder.write(paths, paths.env.name, runtimes.own_file(made))
    path = f"{tmp_path / 'bin'}:{os.environ['PATH']}"
    subprocess.run(
        ["bash", "-c", text],
        env={"PATH": path, "COBALT_NODEFILE": "/nodes of job", **(env or {})},
        check=True,
        timeout=20,
    )
    calls = [ast.literal_eval(line) for line in out.read_text().splitlines()]
    argv, seen = next(call for call in reversed(calls) if call[0][-1] != TIDY)
    return argv[1:], seen


def environment_of(words: list[str]) -> dict[str, str]:
    """Return the environment of a command that stands behind such words."""
    show = [sys.executable, "-c", "import json, os; print(json.dumps(dict(os.environ)))"]
    done = subprocess.run([*words, *show], capture_output=True, text=True, check=True)
    found: dict[str, str] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("name", sorted(scripts.jobs()))
def test_hostile_words_reach_the_trainer_unchanged(tmp_path: Path, name: str) -> None:
    job = scripts.jobs()[name]
    trainer = Trainer("t", None, tmp_path / NAME / "it's.py", tuple(HOSTILE))
    env = tuple((f"V{number}", text) for number, text in enumerate(HOSTILE))
    spec = replace(job.spec, trainer=trainer, env=env, name="a job; $(touch y)\t'é")
    argv, seen = run(tmp_path, replace(job, spec=spec))
    assert argv[-len(HOSTILE) - 2 :] == ["--", str(tmp_path / NAME / "it's.py"), *HOSTILE]
    prefix = {"none": "", "apptainer": "APPTAINERENV_", "singularity": "SINGULARITYENV_"}
    if job.launching.runtime not in prefix:  # the command in the container reads them
        seen = environment_of(argv[argv.index("sh") :][:4])
    for number, text in enumerate(HOSTILE):
        assert seen[f"{prefix.get(job.launching.runtime, '')}V{number}"] == text
        assert not [word for word in argv if f"V{number}=" in word]
    assert sorted(path.name for path in (tmp_path / NAME).iterdir()) == [
        "exit.json",
        "logs",
        "private",
        "starts.jsonl",
    ]


def test_only_the_job_knows_its_file_of_nodes(tmp_path: Path) -> None:
    argv, _ = run(tmp_path, scripts.jobs()["thetagpu"])
    assert argv[argv.index("-hostfile") + 1] == "/nodes of job"


def test_the_hosts_library_path_is_made_on_the_node(tmp_path: Path) -> None:
    made = scripts.jobs()["polaris"]
    seen = run(tmp_path, made, {"CRAY_LD_LIBRARY_PATH": "/cray x", "LD_LIBRARY_PATH": "/l"})[1]
    path = seen["APPTAINERENV_LD_LIBRARY_PATH"]
    assert path.startswith("/soft/libraries/aws-ofi-nccl/")  # else NCCL goes over TCP
    assert path.endswith(":/cray x:/l:/opt/cray/pe/pals/1.2.12/lib")
    assert "NCCL_NET" not in seen  # which ends NCCL where there is no such plugin
    odd = replace(made, host_mpi=HostMpi((), '/a"b`id`$(id)\\$:$LD_LIBRARY_PATH'))
    words = dict(environment.exports(odd, "/r"))["APPTAINERENV_LD_LIBRARY_PATH"]
    done = subprocess.run(["bash", "-c", f"printf %s {words}"], capture_output=True, text=True)
    assert done.stdout.startswith('/a"b`id`$(id)\\$')


@pytest.mark.parametrize("forced", [True, False])
def test_values_of_variables_stay_as_they_are(forced: bool) -> None:
    values = {f"V{number}": text for number, text in enumerate(HOSTILE)}
    variables = tuple(Variable(*pair, "", Where.JOB, forced) for pair in values.items())
    made = replace(scripts.jobs()["neuron"], variables=variables)
    text = "\n".join(f"export {name}={words}" for name, words in environment.exports(made, "/r"))
    show = "\n".join((text, *(f'printf "%s\\0" "${name}"' for name in values)))
    assert _bash(show, {}).split("\0")[:-1] == HOSTILE
    users = dict.fromkeys(values, "the user's")
    expected = values if forced else users
    assert _bash(show, users).split("\0")[:-1] == [*expected.values()]


def test_a_default_of_the_image_gives_way_to_the_users_own() -> None:
    made = replace(scripts.jobs()["neuron"], variables=(Variable("V", "}$x", "", Where.CONTAINER),))
    text = "\n".join(f"export {name}={words}" for name, words in environment.exports(made, "/r"))
    show = f'{text}\nprintf %s "$SINGULARITYENV_V"'
    assert _bash(show, {}) == "}$x"
    assert _bash(show, {"V": "mine"}) == "mine"
    assert _bash(show, {"V": "mine", "SINGULARITYENV_V": "mine within"}) == "mine within"


def _bash(text: str, env: dict[str, str]) -> str:
    done = subprocess.run(["bash", "-c", text], env=env, capture_output=True, text=True, check=True)
    return done.stdout


def test_a_token_is_expanded_only_where_it_says_so() -> None:
    assert quoting.join(["$HOME", "a b"]) == "'$HOME' 'a b'"
    assert quoting.quote(quoting.Expanded("$HOME/x")) == '"$HOME/x"'
    assert quoting.quote(quoting.merged("-L", quoting.Expanded("${A}$"))) == '"-L${A}\\$"'


def test_what_a_runtime_lacks_is_refused_by_name() -> None:
    spec = scripts.jobs()["tuhpc-none"].spec
    asked = replace(
        spec, binds=(BindMount("/a:b", "/c"),), apptainer_args=("--no-home",), host_mpi=True
    )
    assert [sentences.told(refusal) for refusal in limits.refusals(asked, RuntimeName.NONE)] == [
        ("option-needs-container", "leave out --bind"),
        ("option-needs-container", "leave out --apptainer-arg"),
        ("option-needs-container", "leave out --host-mpi"),
    ]
    assert [sentences.told(refusal) for refusal in limits.refusals(asked, RuntimeName.SHIFTER)] == [
        ("host-mpi-by-module", "--apptainer-arg=--module=mpich, leave out --host-mpi"),
        ("path-not-of-runtime", "leave out --bind"),
    ]
    of_amd = limits.refusals(replace(spec, rocm=True), RuntimeName.PODMAN_HPC)
    assert sentences.ids(of_amd) == ["rocm-not-of-runtime"]
    assert limits.refusals(asked, RuntimeName.APPTAINER) == ()


def test_volumes_of_shifter_and_podman() -> None:
    bind = BindMount("/data sets", "/data", True)
    made = replace(scripts.jobs()["perlmutter-shifter"], binds=(bind,))
    assert "--volume=/data sets:/data:ro" in runtimes.argv(made, "/run")
    assert "--volume=/run:/run" not in runtimes.argv(made, "/run")  # the site's own folders
    made = replace(scripts.jobs()["perlmutter-podman-hpc"], binds=(bind, BindMount("/a,b", "/c")))
    argv = runtimes.argv(made, "/run")
    assert "/data sets:/data:ro" in argv
    assert 'type=bind,"source=/a,b",destination=/c' in argv


def test_podman_reaches_the_launcher_by_the_module_for_its_mpi() -> None:
    made = scripts.jobs()["perlmutter-podman-hpc"]
    for controller, mpi, flag in (
        ("gloo", "none", "--network=host"),
        ("mpi", "pmi2", "--mpi"),
        ("mpi", "pmix", "--openmpi-pmix"),
    ):
        assert flag in runtimes.argv(
            replace(made, wireup=Wireup(Controller(controller), mpi)), "/run"
        )
    given = replace(made, wireup=Wireup(Controller.MPI), runtime_args=("--openmpi-pmi2",))
    assert "--mpi" not in runtimes.argv(given, "/run")


def test_podman_pulls_once_on_each_node(tmp_path: Path) -> None:
    """Ranks that pulled would do so several times at once."""
    made = scripts.jobs()["slurm-podman"]
    hostile = replace(made, spec=replace(made.spec, image=ImageInfo(Path("login:5/a b$(touch x)"))))
    argv, _ = run(tmp_path, hostile)
    calls = (tmp_path / "called").read_text().splitlines()
    pull = ast.literal_eval(calls[0])[0]
    assert "--ntasks-per-node=1" in pull
    assert pull[-1] == "login:5/a b$(touch x)"
    assert "login:5/a b$(touch x)" in argv
    folder = str(tmp_path / NAME)
    assert argv[argv.index("--workdir") + 1] == os.getcwd()
    assert f"{folder}:{folder}" in argv
    refusals = limits.refusals(replace(made.spec, host_mpi=True), RuntimeName.PODMAN)
    assert sentences.ids(refusals) == ["host-mpi-not-of-runtime"]


def test_rocm_is_the_runtimes_own_flag() -> None:
    made = replace(scripts.jobs()["slurm-apptainer"], gpus=Gpus(GpuVendor.AMD))
    assert runtimes.argv(made, "/run")[:3] == ["apptainer", "exec", "--rocm"]


@pytest.mark.parametrize(
    ("variables", "value"),
    [({}, "/a:/b"), ({"ONE": "/c"}, "/a:/c:/b"), ({"ONE": "/c", "TWO": "/d:/e"}, "/a:/c:/d:/e:/b")],
)
def test_a_search_path_has_no_empty_folder(variables: dict[str, str], value: str) -> None:
    """That would be the current one, where others may have put a library."""
    text = quoting.quote(quoting.search_path("/a:$ONE:${TWO}:/b"))
    done = subprocess.run(
        ["bash", "-c", f"printf %s {text}"], env=variables, capture_output=True, text=True
    )
    assert done.stdout == value
