"""Files that nobody named are read only where nobody else could have written them."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from runners.cli import cli
from runners.core import trust
from runners.core.errors import UsageError
from runners.images import local_image
from runners.settings import config, config_files

from .. import sentences

OTHER = 4711
Shift = Callable[[Path], None]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with a runner.toml in it; the user's settings are elsewhere."""
    here = tmp_path / "here"
    here.mkdir()
    (here / "runner.toml").write_text("[launch]\nnodes = 3\n")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.chdir(here)
    return here


@pytest.fixture
def give_away(monkeypatch: pytest.MonkeyPatch) -> Shift:
    """What makes a file, folder or link another user's, as lstat and fstat tell it."""
    given_away: set[tuple[int, int]] = set()

    def changed(status: os.stat_result) -> os.stat_result:
        key = (status.st_dev, status.st_ino)
        return os.stat_result((*status[:4], OTHER, *status[5:])) if key in given_away else status

    for name in ("lstat", "fstat", "stat"):
        real = getattr(os, name)
        monkeypatch.setattr(os, name, lambda *args, real=real, **how: changed(real(*args, **how)))

    def give(path: Path) -> None:
        status = os.lstat(path)
        given_away.add((status.st_dev, status.st_ino))

    return give


def nodes() -> object:
    return config.load({}, os.environ).get("nodes")


def refused(evidence: str, *chmod: str) -> None:
    """Refuse the current folder's runner.toml by this; to trust the folder is offered last."""
    folder = Path.cwd()
    with pytest.raises(UsageError) as error:
        nodes()
    id, *remedies = sentences.told(error.value)
    assert (id, error.value.exit_code) == ("untrusted", 2)
    assert remedies == [*chmod, f"runner config trust {folder}"]
    assert error.value.evidence.startswith(evidence)


def test_ones_own_file_is_read(folder: Path) -> None:
    assert nodes() == 3


def test_a_file_of_another_user_is_refused(folder: Path, give_away: Shift) -> None:
    give_away(folder / "runner.toml")
    refused(f"{folder}/runner.toml belongs to the user {OTHER}")


def test_it_does_not_stop_what_launches_nothing_by_it(folder: Path, give_away: Shift) -> None:
    give_away(folder / "runner.toml")
    with pytest.warns(UserWarning, match="runner.toml is not read: .*") as told:
        assert config.load({}, os.environ, strict=False).get("nodes") == 1
    assert f"try: runner config trust {folder}" in sentences.said(str(told[0].message))


def test_a_link_of_another_user_is_refused(folder: Path, give_away: Shift) -> None:
    mine = (folder / "runner.toml").rename(folder / "mine.toml")
    (folder / "runner.toml").symlink_to(mine)
    assert nodes() == 3
    give_away(folder / "runner.toml")
    refused(f"the link {folder}/runner.toml belongs to the user {OTHER}")


def test_a_link_to_a_file_of_another_user_is_refused(folder: Path, give_away: Shift) -> None:
    his = (folder / "runner.toml").rename(folder / "his.toml")
    (folder / "runner.toml").symlink_to("his.toml")
    give_away(his)
    refused(f"{his.with_name('his.toml')} belongs to the user {OTHER}")


@pytest.mark.parametrize("name", ["runner.toml", "."])
def test_what_everybody_may_write_is_refused(folder: Path, name: str) -> None:
    (folder / name).chmod((folder / name).stat().st_mode | 0o002)
    refused(f"every user may write {folder / name} ", f"chmod o-w {folder / name}")


def test_a_folder_above_that_everybody_may_write_is_refused(folder: Path) -> None:
    folder.parent.chmod(0o777)
    refused(f"every user may write {folder.parent} ", f"chmod o-w {folder.parent}")
    folder.parent.chmod(0o1777)
    assert nodes() == 3


def test_a_pipe_is_refused_at_once(folder: Path) -> None:
    (folder / "runner.toml").unlink()
    os.mkfifo(folder / "runner.toml")
    with sentences.raises("toml-unreadable"):
        nodes()


def test_a_file_that_is_replaced_meanwhile_is_read_if_the_new_one_may_be(
    folder: Path, monkeypatch: pytest.MonkeyPatch, give_away: Shift
) -> None:
    """As by another pull, which writes images.lock by rename."""
    path, new, opens = folder / "runner.toml", folder / "new", os.open

    def replacing(*words: Any) -> int:
        if new.exists():
            os.replace(new, path)
        return opens(*words)

    monkeypatch.setattr(os, "open", replacing)
    new.write_text("new")
    assert trust.read(path, os.environ) == b"new"
    new.write_text("theirs")
    give_away(new)
    with sentences.raises("untrusted"):
        trust.read(path, os.environ)


def test_a_link_that_leads_in_a_circle(folder: Path) -> None:
    (folder / "runner.toml").unlink()
    (folder / "runner.toml").symlink_to("runner.toml")
    with sentences.raises("toml-unreadable"):
        nodes()


@pytest.mark.parametrize("name", ["runner.toml", "."])
@pytest.mark.parametrize(
    ("group", "members", "bobs", "primary", "warned"),
    [
        ("ada", ["ada"], 1, True, False),
        ("ada", ["ada", "bob"], 1, True, True),
        ("users", [], 1, True, True),  # everybody's primary group; a directory lists nobody
        ("team", ["ada"], 1, False, False),
        ("team", ["ada", "bob"], 1, False, True),
        ("team", ["ada"], 0, False, True),  # bob's primary group
    ],
)
def test_a_group_with_others_in_it_is_warned_of(
    folder: Path,
    name: str,
    group: str,
    members: list[str],
    bobs: int,
    primary: bool,
    warned: bool,
    monkeypatch: pytest.MonkeyPatch,
    recwarn: pytest.WarningsRecorder,
) -> None:
    gid = (folder / name).stat().st_gid
    me = SimpleNamespace(pw_name="ada", pw_gid=gid if primary else gid + 1)
    bob = SimpleNamespace(pw_name="bob", pw_gid=gid + bobs)
    found = SimpleNamespace(gr_name=group, gr_mem=members)
    monkeypatch.setattr("pwd.getpwuid", lambda uid: me)
    monkeypatch.setattr("pwd.getpwall", lambda: [me, bob])
    monkeypatch.setattr("grp.getgrgid", lambda gid: found)
    (folder / name).chmod((folder / name).stat().st_mode | stat.S_IWGRP)
    assert nodes() == 3
    told = "".join(str(warning.message) for warning in recwarn.list)
    assert (f"the group {group} may write" in told) is warned
    assert ("runner config trust" in told) is warned


def test_a_folder_is_trusted_by_command_until_it_has_another_owner(
    folder: Path, give_away: Shift
) -> None:
    give_away(folder / "runner.toml")
    cli_runner = CliRunner()
    assert cli_runner.invoke(cli, ["config", "trust"]).exit_code == 0
    assert nodes() == 3
    listed = cli_runner.invoke(cli, ["config", "trust", "--list"])
    assert listed.output.split() == [str(folder)]
    give_away(folder)
    refused(f"{folder}/runner.toml belongs to the user {OTHER}")


def test_trust_is_for_what_is_below_and_ends(folder: Path, give_away: Shift) -> None:
    below = folder / "below"
    below.mkdir()
    (folder / "runner.toml").rename(below / "runner.toml")
    os.chdir(below)
    give_away(below / "runner.toml")
    trust.add(folder, os.environ)
    assert nodes() == 3
    os.chdir("..")
    assert CliRunner().invoke(cli, ["config", "trust", "--remove"]).exit_code == 0
    os.chdir(below)
    refused(f"{below}/runner.toml belongs to the user {OTHER}")


def test_trust_of_what_is_below_says_nothing_of_what_is_beside(folder: Path) -> None:
    (folder / "below").mkdir()
    trust.add(folder / "below", os.environ)
    folder.chmod(0o777)
    refused(f"every user may write {folder} ", f"chmod o-w {folder}")


def test_what_was_not_trusted_cannot_be_removed(folder: Path) -> None:
    done = CliRunner().invoke(cli, ["config", "trust", "--remove"])
    assert isinstance(done.exception, UsageError)


def test_an_image_by_its_name_alone_is_not_another_users(folder: Path, give_away: Shift) -> None:
    (folder / "a.sif").touch()
    assert local_image.find("a.sif") == folder / "a.sif"
    give_away(folder / "a.sif")
    with sentences.raises("untrusted"):
        local_image.find("a.sif")
    assert local_image.find("./a.sif") == folder / "a.sif"


@pytest.fixture
def site(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A site's profile in a folder that the environment names."""
    (folder / "runner.toml").unlink()
    (folder / "hill.toml").write_text("title = 'Hill'\n[detect]\nhosts = ['*']\n")
    monkeypatch.setenv("RUNNER_SITES_PATH", str(folder))
    return folder / "hill.toml"


def test_a_folder_of_sites_that_is_named_vouches_for_its_owner(
    site: Path, give_away: Shift
) -> None:
    give_away(site.parent)
    give_away(site)
    assert '"hill"' in CliRunner().invoke(cli, ["sites", "--json"]).output


def test_a_folder_of_sites_that_is_named_vouches_for_no_one_else(
    site: Path, give_away: Shift
) -> None:
    give_away(site)
    error = CliRunner().invoke(cli, ["sites", "--json"]).exception
    assert isinstance(error, UsageError)
    trusting, another = f"runner config trust {site.parent}", "--site NAME, or --site none"
    assert sentences.told(error) == ("untrusted", trusting, another)
    assert f"hill.toml belongs to the user {OTHER}" in error.evidence


@pytest.fixture(scope="module")
def fuzzed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("fuzzed")


@given(
    st.one_of(
        st.binary(max_size=200),
        st.text(alphabet="[]{}=\"'\\.,# \n\tab1-", max_size=200).map(str.encode),
        st.sampled_from([b"[launch]\nnodes = ", b"[images]\nsource = ", b"[datasets.a]\n"]).flatmap(
            lambda head: st.binary(max_size=60).map(lambda tail: head + tail)
        ),
    )
)
def test_a_file_of_any_bytes_is_read_or_refused(fuzzed: Path, content: bytes) -> None:
    (fuzzed / "runner.toml").write_bytes(content)
    env = {"XDG_CONFIG_HOME": "/nowhere"}
    with contextlib.chdir(fuzzed), contextlib.suppress(UsageError):
        for table in config_files.TABLES:
            config_files.tables(env, table)
        config.load({}, env)


def test_a_run_lies_in_no_folder_that_another_user_could_move(
    tmp_path: Path, give_away: Shift
) -> None:
    """Who has a folder moves what is in it; below one for everybody anyone may have made it."""
    for path, mode in (("open", 0o1777), ("open/his", 0o755), ("open/his/mine", 0o755)):
        (tmp_path / path).mkdir()
        (tmp_path / path).chmod(mode)
    for name in ("his/mine", "his/mine/new/runs", "his", "new", ""):
        trust.check(tmp_path / "open" / name, os.environ)
    give_away(tmp_path / "open/his")
    for name, id in (
        ("his/mine", "path-replaceable"),
        ("his/mine/new/runs", "path-replaceable"),
        ("his", "untrusted"),
    ):
        with sentences.raises(id):
            trust.check(tmp_path / "open" / name, os.environ)
    trust.check(tmp_path / "open/new", os.environ)
    give_away(tmp_path / "open")
    with sentences.raises("path-replaceable"):
        trust.check(tmp_path / "open/new", os.environ)
