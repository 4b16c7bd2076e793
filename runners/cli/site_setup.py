"""`runner site-setup`: from a profile what all users of a site need."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from .. import __version__
from ..core.errors import UsageError
from ..core.site_profile import Profile
from ..images import image_storage
from ..plan import staging
from ..settings.sites import elsewhere, find, load
from ..site_setup import folder, guide, installation, module_file, profiles
from . import common_options, completion, printer

EXAMPLE = """\b
Examples:
  runner site-setup /apps/horovod-runner
  runner site-setup --site neuron /apps/horovod-runner
"""


@click.command("site-setup", epilog=EXAMPLE)
@click.argument("path", metavar="FOLDER", type=click.Path(path_type=Path))
@click.option("--site", metavar="NAME", help="the site's profile (default: the one in force here)")
@common_options.as_json
def site_setup_command(path: Path, site: str | None, as_json: bool) -> None:
    """Give all users of a site this runner: `module load horovod-runner`.

    For a site's administrators. FOLDER, new or of an earlier set-up, on a file system that all
    nodes share, gets a module file (for Environment Modules and Lmod), completion for bash, zsh
    and fish, and a guide of one page with the site's own commands; also folders for images and
    datasets where the profile names none, and a copy of a profile of your own.
    """
    setup = folder.at(path)
    env = profiles.without_own(setup, os.environ)
    profile = _profile(site, env)
    installation.check()
    content, profile = _content(setup, profile, env)
    folder.write(setup, content)
    for warning in _warnings(setup, profile):
        printer.tell(f"warning: {warning}")
    _print(setup, content, as_json)


def _profile(name: str | None, env: Mapping[str, str]) -> Profile:
    if name == find.NONE:
        raise UsageError("a set-up is for a site: --site none has no profile", "", "runner sites")
    if name:
        return load.profile(name, env)
    profile, problem = find.here(env)
    if problem:
        printer.tell(problem)
    if profile is None:
        raise UsageError(
            "no site is in force here",
            "no profile names this machine or its cluster",
            "runner site-setup --site NAME FOLDER\nrunner sites new",
        )
    return profile


def _content(
    setup: folder.SetUp, profile: Profile, env: Mapping[str, str]
) -> tuple[folder.Content, Profile]:
    """Return what the set-up holds, and the profile as it is with it."""
    own, folders = profiles.own(setup, profile.name, env), profiles.missing(setup, profile)
    texts = dict(own)
    if folders:
        made = setup.sites / f"{profile.name}.toml"
        texts[made] = profiles.with_folders(profile.name, folders)
        paths = {key: str(path) for key, path in folders.items()}
        profile = replace(profile, paths={**profile.paths, **paths})
    sites = [setup.sites] * bool(folders) + [setup.own_sites] * bool(own)
    title, site = profile.title or profile.name, profiles.named(profile)
    texts |= {setup.completion(shell): completion.text(shell) for shell in module_file.SHELLS}
    texts[setup.launcher] = installation.launcher()
    texts[setup.guide] = guide.text(setup, profile)
    texts[setup.module_file] = module_file.text(setup, title, sites, site)
    return folder.Content(texts, list(folders.values()), {"site": profile.name}), profile


def _warnings(setup: folder.SetUp, profile: Profile) -> Iterator[str]:
    unseen = staging.unseen(setup.root, image_storage.kinds([setup.root])[setup.root])
    if unseen:
        yield f"the nodes of a job do not see {setup.root}: {unseen}"
    closed = folder.closed(setup.root)
    if closed:
        yield f"the set-up is not for all: others may not enter or read {closed}"
    for what, closed in installation.closed_to_others():
        yield f"{what} is not for all: others may not enter or read {closed}"
    cluster, _ = find.cluster(os.environ)
    if elsewhere.is_elsewhere(profile, cluster, os.uname().nodename, os.environ):
        yield (
            f"this machine is not of {profile.name}, by its profile; where a user's is not either, "
            "jobs are shown and not submitted"
        )


def _print(setup: folder.SetUp, content: folder.Content, as_json: bool) -> None:
    use = shlex.join(["module", "use", str(setup.modules)])
    made: dict[str, Any] = {
        **content.facts,
        "version": __version__,
        "module_file": str(setup.module_file),
        "runner": str(setup.launcher),
        "completion": [str(setup.completion(shell)) for shell in module_file.SHELLS],
        "guide": str(setup.guide),
        "profiles": [str(path) for path in content.texts if path.suffix == ".toml"],
        "folders": [str(path) for path in content.folders],
        "module_use": use,
    }
    if as_json:
        printer.print_json(made)
        return
    shown = [(name.replace("_", " "), made[name]) for name in list(made)[2:-1]]
    rows = [
        [name, path]
        for name, paths in shown
        for path in (paths if isinstance(paths, list) else [paths])
    ]
    printer.table(rows, headers=[])
    if content.folders:
        click.echo("what you copy into these folders is everybody's", err=True)
    click.echo(f"next, for everybody's shell, such as in /etc/profile.d: {use}", err=True)
