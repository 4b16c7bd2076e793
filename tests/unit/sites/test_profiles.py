"""Profiles: what is shipped, how they are read, found, inherited and refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from runners.cli import cli
from runners.core.command_line import FLAG
from runners.core.site import Detect
from runners.images import local_image
from runners.settings import config
from runners.sites import find_site, load

from .. import sentences
from .profiles import SHIPPED, environment, shipped, write


@pytest.mark.parametrize("path", [*sorted(load.SHIPPED.glob("*.toml"))])
def test_shipped_profiles_are_without_fault(tmp_path: Path, path: Path) -> None:
    assert load.faults(path, environment(tmp_path)) == []


@pytest.mark.parametrize("name", SHIPPED)
def test_every_value_of_a_shipped_profile_has_source_date_and_file(name: str) -> None:
    profile = shipped(name)
    assert set(profile.files) == set(profile.sources)
    assert {len(source.date) for source in profile.sources.values()} == {10}
    assert profile.title
    assert profile.scheduler


def test_what_cannot_be_run_here_says_so() -> None:
    assert "pbs" in shipped("polaris").rendered
    assert "cobalt" in shipped("thetagpu").rendered
    assert "slurm" not in shipped("perlmutter").rendered
    assert "shifter" in shipped("perlmutter").rendered


@pytest.mark.parametrize(
    ("cluster", "host", "env", "name", "why"),
    [
        ("neuron", "x", {}, "neuron", "the cluster calls itself neuron"),
        ("", "glogin01", {}, "neuron", "this machine, glogin01, is named like glogin[0-9]*"),
        ("perlmutter", "login07", {}, "perlmutter", "the cluster calls itself perlmutter"),
        ("", "login07", {"NERSC_HOST": "perlmutter"}, "perlmutter", "NERSC_HOST is perlmutter"),
        ("", "alvis2.c3se.chalmers.se", {}, "alvis", "named like alvis[0-9].*"),
        ("", "polaris-login-02", {}, "polaris", "named like polaris-login-*"),
        ("", "thetagpusn1", {}, "thetagpu", "named like thetagpusn*"),
        ("kit", "login", {}, None, ""),
        ("", "", {}, None, ""),
        ("", "login07", {"NERSC_HOST": "cori"}, None, ""),
    ],
)
def test_a_site_is_found(
    tmp_path: Path, cluster: str, host: str, env: dict[str, str], name: str | None, why: str
) -> None:
    found = find_site.find(None, cluster, host, {**environment(tmp_path), **env})
    assert (found.name if found else None) == name
    assert why in (found.chosen if found else "")


def test_a_site_by_name(tmp_path: Path) -> None:
    env = environment(tmp_path)
    assert find_site.find("none", "neuron", "x", env) is None
    asked = find_site.find("alvis", "neuron", "x", env)
    assert asked is not None
    assert (asked.name, asked.chosen) == ("alvis", "as requested")
    with sentences.raises("site-unknown", "--site alvis"):
        find_site.find("aluis", "", "", env)


def test_a_users_profile_is_found_before_a_shipped_one(tmp_path: Path) -> None:
    write(tmp_path, "zzz", '[detect]\nclusters = ["neuron"]\n')
    found = find_site.find(None, "neuron", "glogin01", environment(tmp_path))
    assert found is not None
    assert found.name == "zzz"


def test_the_strongest_evidence_of_one_profile_is_told_first() -> None:
    detect = Detect(("c",), ("h*",), {"V": "1"})
    assert find_site.why(detect, "c", "h1", {"V": "1"}) == "V is 1"
    assert find_site.why(detect, "c", "h1", {}) == "the cluster calls itself c"


def test_a_users_file_of_the_same_name_wins_and_builds_on_the_shipped_one(tmp_path: Path) -> None:
    path = write(
        tmp_path, "neuron", 'base = "neuron"\n[launch]\nmodule = []\n[nodes.gh200_1]\ncpus = 71\n'
    )
    profile = load.profile("neuron", environment(tmp_path))
    assert profile.launch == {"partition": "amd_a100nv_8", "module": []}
    assert profile.files["launch.module"] == str(path)
    assert profile.files["launch.partition"] == "runners/sites/neuron.toml"
    kinds = {kind.name: kind for kind in profile.nodes}
    assert (kinds["gh200_1"].cpus, kinds["gh200_1"].gpus) == (71, 1)
    assert "launch.module" not in profile.sources
    found = find_site.find(None, "neuron", "", environment(tmp_path))
    assert found is not None
    assert found.launch["module"] == []


def test_folders_of_a_whole_site_stand_between(tmp_path: Path) -> None:
    site = tmp_path / "etc"
    site.mkdir()
    (site / "tuhpc.toml").write_text('base = "tuhpc"\nlogin = "site"\ntitle = "ours"\n')
    env = {**environment(tmp_path), "RUNNER_SITES_PATH": f"/nonexistent:{site}"}
    assert load.profile("tuhpc", env).login == "site"
    write(tmp_path, "tuhpc", 'base = "tuhpc"\ntitle = "mine"\n')
    assert load.profile("tuhpc", env).title == "mine"
    assert load.profile("tuhpc", env).login == "site"


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("schedular = 'slurm'\n", "unknown key schedular; did you mean scheduler"),
        ("[launch]\npartitoin = 'x'\n", "unknown key launch.partitoin; did you mean partition"),
        ("[launch]\nnodes = '2'\n", "nodes must be a whole number"),
        ("[rules]\nforbidden = {}\n", "unknown key rules.forbidden; did you mean forbid"),
        ("[rules.forbid]\nmemory = 'x'\n", "unknown key rules.forbid.memory"),
        ("[rules.require.comment]\nwhy = 'x'\n", "unknown key rules.require.comment.why"),
        ("[rules.require.account]\npattern = '('\n", "must be a regular expression"),
        ("[rules.max_time]\nq = 'long'\n", "rules.max_time.q must be one of Slurm's time limits"),
        ("[rules]\ngpu_request = 'gpus'\n", "must be one of gres, gpus-per-node, not 'gpus'"),
        ("scheduler = 'sge'\n", "must be one of slurm, cobalt, pbs, local, not 'sge'"),
        ("runtimes = ['docker']\n", "runtimes must be one of apptainer"),
        ("runtimes = 'apptainer'\n", "runtimes must be a list of strings"),
        ("[nodes]\na = 1\n", "nodes.a must be a table"),
        ("[nodes.a]\ncpus = -1\n", "nodes.a.cpus must be a whole number, 0 or more"),
        ("[nodes.a]\ncpus = true\n", "nodes.a.cpus must be a whole number"),
        ("env = { A = 1 }\n", "env.A must be a string, not 1"),
        ("[sources]\nlaunch = 'x'\n", "sources.launch must be a table"),
        ("launch = 1\n", "launch must be a table"),
        ("base = 1\n", "base must be a string"),
    ],
)
def test_a_faulty_profile_is_refused(tmp_path: Path, text: str, fault: str) -> None:
    path = write(tmp_path, "bad", text)
    with sentences.raises("table-invalid") as error:
        load.profile("bad", environment(tmp_path))
    assert error.value.what.startswith(f"{path}: ")
    assert fault in "\n".join(load.faults(path, environment(tmp_path)))


@pytest.mark.parametrize(
    ("text", "id", "fault"),
    [
        ("base = 'slrum'\n", "profile-base-unknown", "is no profile"),
        ("[launch\n", "toml-malformed", "not valid TOML"),
    ],
)
def test_a_profile_that_cannot_be_read_is_refused(
    tmp_path: Path, text: str, id: str, fault: str
) -> None:
    path = write(tmp_path, "bad", text)
    with sentences.raises(id) as error:
        load.profile("bad", environment(tmp_path))
    assert error.value.what.startswith(str(path))
    assert fault in "\n".join(load.faults(path, environment(tmp_path)))


def test_all_faults_are_told_at_once(tmp_path: Path) -> None:
    path = write(tmp_path, "bad", "one = 1\nruntimes = 2\n[launch]\nthree = 3\n")
    assert len(load.faults(path, environment(tmp_path))) == 3
    with sentences.raises("table-invalid") as error:
        load.profile("bad", environment(tmp_path))
    assert str(error.value).count("\n") == 2


@pytest.mark.parametrize(
    ("bases", "way"),
    [
        ({"a": "b", "b": "c", "c": "a"}, "a -> b -> c -> a"),
        ({"a": "b", "b": "c", "c": "b"}, "b -> c -> b"),
        ({"neuron": "x", "x": "neuron"}, "neuron -> x -> neuron"),
    ],
)
def test_a_circle_of_bases_is_refused_by_name(
    tmp_path: Path, bases: dict[str, str], way: str
) -> None:
    for name, base in bases.items():
        write(tmp_path, name, f'base = "{base}"\n')
    with sentences.raises("profile-base-circle") as error:
        load.profile(next(iter(bases)), environment(tmp_path))
    assert error.value.what.endswith(f": {way}")


def test_a_profile_cannot_be_its_own_base(tmp_path: Path) -> None:
    write(tmp_path, "a", 'base = "a"\n')
    with sentences.raises("profile-base-unknown"):
        load.profile("a", environment(tmp_path))


def test_a_faulty_profile_in_the_way_of_finding_names_the_way_out(tmp_path: Path) -> None:
    write(tmp_path, "bad", "one = 1\n")
    with sentences.raises("table-invalid", "--site NAME, or --site none"):
        find_site.find(None, "kit", "login", environment(tmp_path))
    assert find_site.find("none", "kit", "login", environment(tmp_path)) is None


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("login = 'a'\n", "login has no source"),
        ("login = 'a'\n[sources]\nlogin = { date = '2026-01-02' }\n", "sources.login has no text"),
        (
            "login = 'a'\n[sources]\nlogin = { text = 't', date = 'May' }\n",
            "sources.login has no date such as 2026-11-21",
        ),
        (
            "[sources]\nlogin = { text = 't', date = '2026-01-02' }\n",
            "sources.login is about nothing in this file",
        ),
        (
            "[rules.require.qos]\nremedy = 'x'\n"
            "[sources]\nrules = { text = 't', date = '2026-01-02' }\n",
            "rules.require.qos has no reason",
        ),
    ],
)
def test_lint_wants_sources_and_reasons(tmp_path: Path, text: str, fault: str) -> None:
    assert load.faults(write(tmp_path, "p", text), environment(tmp_path)) == [fault]


def test_the_sites_settings_lie_between_preset_and_user(here: Path) -> None:
    write(here, "here", '[launch]\nqos = "s"\npartition = "s"\nnodes = 3\nbind = ["/s"]\n')
    (here / "runner" / "runner.toml").write_text('[launch]\npartition = "u"\nbind = ["/u"]\n')
    env = environment(here)
    preset = config.check_table("recipe x", {"nodes": 2, "time": "10"})
    merged = config.load({}, env, preset, load.profile("here", env))
    assert merged.values["nodes"] == 3
    assert merged.values["time"] == "10"
    assert merged.values["partition"] == "u"
    assert merged.values["bind"] == ["/s", "/u"]
    assert merged.origins("qos") == f"site here ({here}/runner/sites/here.toml)"


@pytest.mark.parametrize(
    ("flags", "kept"),
    [
        ({}, {"gpus-per-node", "ntasks-per-node", "cpus-per-task"}),
        ({"gres": "gpu:2"}, {"ntasks-per-node", "cpus-per-task"}),
        ({"gpus": "8", "ntasks": 8}, {"cpus-per-task"}),
        ({"ntasks": 2}, {"gpus-per-node", "cpus-per-task"}),
    ],
)
def test_the_sites_way_to_ask_gives_way_to_the_users(
    tmp_path: Path, flags: dict[str, object], kept: set[str]
) -> None:
    layers = config.site_layers(shipped("polaris"), [config.ConfigLayer(FLAG, flags)])
    names = {name for layer in layers for name in layer.values}
    assert names & {"gpus-per-node", "ntasks-per-node", "cpus-per-task"} == kept


def test_the_known_sites_and_the_one_in_force(tmp_path: Path) -> None:
    path = write(tmp_path, "mine", 'title = "Mine"\n')
    sites, problem = find_site.known({**environment(tmp_path), "RUNNER_SITE": "mine"})
    assert {"mine", *SHIPPED} <= {site.profile.name for site in sites}
    assert [(site.path, site.chosen) for site in sites if site.chosen] == [(path, "as requested")]
    assert problem == ""
    assert not any(
        site.chosen for site in find_site.known({**environment(tmp_path), "RUNNER_SITE": "none"})[0]
    )


def test_every_value_of_a_site_has_the_file_that_brings_it(tmp_path: Path) -> None:
    text = 'base = "neuron"\ntitle = "Mine"\n[launch]\npartition = "own"\n'
    source = '[sources."launch.partition"]\ntext = "the manual"\ndate = "2026-01-02"\n'
    path, env = write(tmp_path, "mine", text + source), environment(tmp_path)
    own = {value.key: value for value in load.values(load.profile("mine", env), env)}
    partition, scheduler = own["launch.partition"], own["scheduler"]
    assert (partition.value, partition.source.text, partition.file) == (
        "own",
        "the manual",
        load.shown(path),
    )
    assert Path(scheduler.file).name == "slurm.toml", "the base of its base"


def test_all_profiles_are_checked_or_those_that_are_named(tmp_path: Path) -> None:
    path, env = write(tmp_path, "mine", "foo = 1\n"), environment(tmp_path)
    faults = load.faults_of_all((), env)
    assert len(faults) > len(SHIPPED)
    assert [name for name, texts in faults.items() if texts] == [load.shown(path)]
    assert list(load.faults_of_all([path], env)) == [load.shown(path)]


def listed(folder: Path, *words: str) -> str:
    """Return what `runner images --site` prints."""
    done = CliRunner().invoke(cli, ["images", "--site", *words], env=environment(folder))
    if done.exception:
        raise done.exception
    return done.stdout


def test_a_sites_ready_images_are_listed(tmp_path: Path) -> None:
    there = tmp_path / "ada" / "ngc"
    (there / "older").mkdir(parents=True)
    (there / "pytorch_22.03.sif").write_bytes(b"x" * 1000)
    (there / "older" / "tf 1.simg").touch()
    (there / "README").touch()
    (there / "gone.sif").symlink_to("nowhere")
    write(tmp_path, "mine", f'[paths]\nimages = "{tmp_path}/$USER/ngc"\n')
    rows = json.loads(listed(tmp_path, "mine", "--json"))
    assert [row["path"] for row in rows] == [
        f"{there}/older/tf 1.simg",
        f"{there}/pytorch_22.03.sif",
    ]
    assert f"{there}/pytorch_22.03.sif  1.0 kB" in listed(tmp_path, "mine")


def test_images_of_a_site_that_has_none_here(tmp_path: Path) -> None:
    env = environment(tmp_path)
    with sentences.raises("site-without-images", "runner sites show tuhpc"):
        local_image.of_site("tuhpc", env)
    with sentences.raises("site-images-missing"):
        local_image.of_site("neuron", env)


def test_programs_read_each_value_of_a_site_with_where_it_comes_from(tmp_path: Path) -> None:
    env = environment(tmp_path)
    facts = [value.facts for value in load.values(shipped("neuron"), env)]
    assert all(list(value) == ["key", "value", "source", "date", "file"] for value in facts)
    assert not any(isinstance(value["value"], list) for value in facts)
    known = {site.profile.name: site.facts for site in find_site.known(env)[0]}
    assert known["polaris"]["scheduler"] == "pbs"
    assert (known["polaris"]["in_force"], known["polaris"]["never_run"]) == (
        "",
        shipped("polaris").rendered,
    )
