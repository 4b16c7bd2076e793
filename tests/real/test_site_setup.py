"""`runner site-setup`, and a user who loads the module: by Environment Modules, and by Lmod."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys

import pytest

from .conftest import CHECKOUT, IMAGE, Login
from .terminal import terminal

# What one of the two could take for its own, or the user's shell.
HOSTILE = "it's;[exit]&(x)`touch*y`~#%2"
TITLE = r"""title = 'a "b" [exit] {c $d \ ]===] \{ #%é;'"""
PLAIN_PATH = "PATH=/usr/bin:/bin"  # without the cluster's own runner
ENVIRONMENT_MODULES = "/usr/share/modules/init/bash"
LMOD = "/usr/share/lmod/lmod/init/bash"
# Another Python's modules set these; the user's own `python3` is not the module's.
OTHER_PYTHON = "export PYTHONPATH=$PWD/other PYTHONHOME=/nowhere"
USE = """
module use {modules} && module load horovod-runner
type -P python3
"""
COMPLETE = """
COMP_WORDS=(runner lau) COMP_CWORD=1; _runner_completion runner; echo "<${COMPREPLY[*]}>"
COMPREPLY=() COMP_WORDS=(runner launch --controller m) COMP_CWORD=3
_runner_completion runner; echo "<${COMPREPLY[*]}>"
"""
# The shell of a job inherits the module and not the completion.
UNLOAD = """
bash -ec '. {init}; module unload horovod-runner; echo unloaded' 2>&1
module help horovod-runner 2>&1 | grep Guide
module unload horovod-runner
type -P runner | grep -F {folder}; complete -p runner; echo "<$RUNNER_SITES_PATH>"
"""
# In a root that vanishes with the command; Lmod takes the place of Environment Modules there.
WITH_PACKAGES = """
{{ apt-get -q update && apt-get -qy install {names}; }} >/tmp/apt 2>&1 ||
    {{ cat /tmp/apt; exit 1; }}
exec setpriv --reuid=ada --regid=ada --init-groups env HOME=/home/ada timeout 60 bash -c {script}
"""
FISH = """
. /usr/share/modules/init/fish
module use {modules}; module load horovod-runner
complete -C "runner lau"; complete -C "runner launch --controller m"
complete -C "runner launch t.p"
module unload horovod-runner; type runner 2>/dev/null; complete -c runner
"""
# zpty is a terminal; zpty -r waits until what has appeared fits.
ZSH = r"""
zmodload zsh/zpty
zpty user zsh -f -i
zpty -w user "PS1='READY> '; autoload -Uz compinit; compinit -u; . /usr/share/modules/init/zsh"
zpty -w user {use}"; module load horovod-runner; echo lo''aded"
zpty -r user seen '*loaded*READY> *'
for word whole in 'runner lau' 'launch' '--controller g' '--controller gloo' ' t.p' ' t.py'; do
    zpty -n -w user "$word"$'\t'
    zpty -r user seen "*$whole*"
done
print done
"""


def set_up(login: Login, name: str) -> str:
    """Make a profile of this cluster and a set-up of it as its administrator; return its folder."""
    login.sh("mkdir other; echo 'raise SystemExit(1)' > other/click.py")
    admin = {"XDG_CONFIG_HOME": f"{login.folder}/admin"}
    made = login.runner("sites", "new", "mine", env=admin)
    assert made.returncode == 0, made.stderr
    login.sh(
        f"echo {shlex.quote(TITLE)} > t; sed -i -e '1{{r t' -e 'd}}' {made.stdout.strip()}; rm t"
    )
    folder = f"{login.folder}/{name}"
    done = login.runner("site-setup", "--json", folder, env=admin)
    assert done.returncode == 0, done.stderr
    facts = json.loads(done.stdout)
    assert facts["site"] == "mine"
    assert facts["profiles"] == [f"{folder}/sites/own/mine.toml", f"{folder}/sites/mine.toml"]
    return folder


def script(init: str, folder: str) -> str:
    """Return what a user types, from loading the module to unloading it."""
    modules, folder = shlex.quote(f"{folder}/modulefiles"), shlex.quote(folder)
    return "\n".join(
        [
            f"{PLAIN_PATH}; . {init}",
            USE.format(modules=modules),
            f"{OTHER_PYTHON}; runner --version; unset PYTHONHOME",
            COMPLETE,
            UNLOAD.format(init=init, folder=folder),
        ]
    )


def check(said: str, folder: str) -> None:
    """Look at what the user then sees."""
    assert said.splitlines() == [
        "/usr/bin/python3",
        "runner, version 0.1.0",
        "<launch>",
        "<mpi>",
        "unloaded",
        f"Guide: {folder}/0.1.0/guide.md",
        "<>",
    ]


@pytest.mark.parametrize("name", ["apps", HOSTILE], ids=["plain", "hostile"])
def test_the_module_is_loaded_by_environment_modules(login: Login, name: str) -> None:
    folder = set_up(login, name)
    done = login.run("bash", "-lc", script(ENVIRONMENT_MODULES, folder))
    check(done.stdout, folder)
    assert "no completion specification" in done.stderr
    assert login.sh("ls") == login.sh(f"ls -d admin other {shlex.quote(name)}")


def test_a_folder_that_cannot_be_written_is_told(login: Login) -> None:
    done = login.runner("site-setup", "--site", "tuhpc", "/usr/runner-site")
    assert done.returncode == 1
    assert "cannot write into /usr/runner-site\n" in done.stderr
    assert "Permission denied" in done.stderr


def test_the_module_is_loaded_by_lmod(login: Login) -> None:
    folder = set_up(login, HOSTILE)
    check(with_packages("lmod", f"cd {login.folder}; {script(LMOD, folder)}"), folder)


def test_fish_and_zsh_complete(login: Login) -> None:
    folder = set_up(login, HOSTILE)
    modules = shlex.quote(f"{folder}/modulefiles")
    use = shlex.quote(f"module use {modules}")
    login.write("t.py", "")
    fish, zsh = FISH.format(modules=modules), ZSH.format(use=use)
    both = f"fish -c {shlex.quote(fish)}; zsh -f -c {shlex.quote(zsh)}"
    said = with_packages("fish zsh", f"cd {login.folder}; {PLAIN_PATH}; {both}")
    assert said.splitlines() == ["launch\tRun a trainer on N ranks", "mpi", "t.py", "done"]


def with_packages(names: str, script: str) -> str:
    """Return what a script of ada's says where these packages of Debian are installed."""
    text = WITH_PACKAGES.format(names=names, script=shlex.quote(script))
    toolbox = [sys.executable, "-m", "tests.cluster", "toolbox", "--as", "root"]
    done = subprocess.run(
        [*toolbox, "--", "bash", "-ec", text], cwd=CHECKOUT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_site_comes_with_the_module(login: Login) -> None:
    """A user without a profile has it, its folders, and a dry run by the guide's own words."""
    folder = set_up(login, "apps")
    login.sh("runner data synth mnist apps/data/digits --samples 60")
    login.sh(f"ln -s {IMAGE} apps/images/site.sif")
    use = f"{PLAIN_PATH}; . {ENVIRONMENT_MODULES}; module use {folder}/modulefiles"
    load = f"{use}; module load horovod-runner"
    (row,) = (r for r in json.loads(login.sh(f"{load}; runner sites --json")) if r["in_force"])
    assert (row["name"], row["file"]) == ("mine", f"{folder}/sites/mine.toml")
    (image,) = json.loads(login.sh(f"{load}; runner images --site mine --json"))
    assert image["path"] == f"{folder}/images/site.sif"
    guide = login.sh("cat apps/0.1.0/guide.md")
    assert guide.startswith('# horovod-runner 0.1.0 on a "b" [exit] {c $d')
    (launch,) = re.findall(r"^\$ (runner launch .* --dry-run .*)$", guide, re.MULTILINE)
    assert "--gpus-per-node 4" in launch, "Slurm is told so"
    for_cpus = launch.replace("horovod_gpu.sif", image["path"]).replace("--gpus-per-node 4", "")
    shown = login.sh(f"{load}; {for_cpus}")
    assert "#SBATCH --nodes=2\n" in shown
    job = "runner launch --nodes 2 --data digits --follow torch_mnist -- --epochs 1"
    said = login.sh(f"{load}; RUNNER_IMAGE={image['path']} {job}")
    assert "one world of 2 ranks" in said


def test_the_tab_key_completes(login: Login) -> None:
    folder = set_up(login, "apps")
    with terminal(login, "bash", "--norc", env={"PATH": "/usr/bin:/bin"}) as user:
        user.type(f". {ENVIRONMENT_MODULES}; module use {folder}/modulefiles\n")
        user.type("module load horovod-runner; echo lo''aded\n")
        user.see("loaded")
        user.type("runner lau\t")
        user.see("runner launch ")
        user.type("--image apps/0.1.0/gui\t")
        user.see(r"apps/0\.1\.0/guide\.md")
