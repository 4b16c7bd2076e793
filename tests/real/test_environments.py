"""Environments that the site or the user has: modules, an active environment, no --image."""

from __future__ import annotations

import pytest

from .conftest import UNPACKED, Done, Login, ended, succeeded
from .test_tutorials import SCRIPTS

# The distribution's two, each with the file that gives a shell its `module`.
MODULES = {
    "Environment Modules": "/usr/share/modules/init/bash",
    "Lmod": "/usr/share/lmod/lmod/init/bash",
}
TOOL = next(iter(MODULES))
WHERE = """
import os, shutil, sys
print("rank of", sys.prefix, shutil.which("mpirun"), os.environ.get("SITE_PYTHON"), flush=True)
"""
PYTHON = """#%Module
setenv SITE_PYTHON {folder}
prepend-path PATH {folder}/bin
"""
OPEN_MPI = """#%Module
set prefix {folder}
prepend-path PATH $prefix/bin
prepend-path LD_LIBRARY_PATH $prefix/lib
"""


def shell(login: Login, *lines: str, tool: str = TOOL, timeout: float = 300) -> Done:
    """Run lines in a shell of the user's that knows `module`."""
    return login.run("bash", "-c", "\n".join([f". {MODULES[tool]}", *lines]), timeout=timeout)


# A Python of the site's own beside the system's, with its packages elsewhere: as EasyBuild has it.
TORCH = f"""#%Module
prepend-path PATH {{folder}}/bin
prepend-path PYTHONPATH {UNPACKED}/opt/horovod/lib/python3.11/site-packages
"""


@pytest.fixture
def site(login: Login) -> Login:
    """A folder with modulefiles of a Python and of an Open MPI."""
    login.sh("mkdir -p files/python files/openmpi mpi/bin mpi/lib")
    login.sh("python3 -m venv --without-pip python")
    login.sh("ln -s /usr/bin/mpirun mpi/bin/; ln -s /usr/lib/x86_64-linux-gnu/libmpi.so.40 mpi/lib")
    login.write("files/python/3", PYTHON.format(folder=f"{login.folder}/python"))
    login.write("files/openmpi/5", OPEN_MPI.format(folder=f"{login.folder}/mpi"))
    login.write("where.py", WHERE)
    return login


LAUNCH = "runner launch --nodes 2 --no-gate --follow --all"


@pytest.mark.parametrize("tool", MODULES)
def test_a_module_brings_the_python_of_the_ranks(site: Login, tool: str) -> None:
    words = "--module-use files --module python/3 --module openmpi"
    done = succeeded(shell(site, f"{LAUNCH} {words} where.py", tool=tool))
    said = f"rank of {site.folder}/python {site.folder}/mpi/bin/mpirun {site.folder}/python"
    assert done.stdout.count(said) == 2
    plan = shell(site, f"runner plan --nodes 2 {words} where.py", tool=tool).stdout
    assert "no image was given: the Python of --module python/3 --module openmpi" in plan
    refused = ended(shell(site, f"runner plan {words} torch_mnist", tool=tool), 80)
    assert (
        "torch_mnist needs pytorch, which python does not have" in refused.stderr + refused.stdout
    )


def test_a_python_with_torch_by_a_module(site: Login) -> None:
    """The CPU image's, without the image: Debian 13 itself has another Python, and no torch."""
    site.sh("mkdir -p files/torch torch/bin")
    site.sh(f"ln -s {UNPACKED}/usr/bin/python3.11 torch/bin/python3")
    site.write("files/torch/2", TORCH.format(folder=f"{site.folder}/torch"))
    site.write_all([SCRIPTS / "ddp_env.py"])
    launch = "runner launch --nodes 2 --follow --all"
    done = succeeded(
        shell(site, f"{launch} --module-use files --module torch ddp_env.py", tool="Lmod")
    )
    assert "runner: one world of 2 ranks" in done.stdout
    assert "trained by 2" in done.stdout
    assert "apptainer" not in site.sh("cat runs/ddp_env-1/job.sbatch")


# Lmod's form of a hierarchy: a compiler's module shows those that were made with it.
HIERARCHY = {
    "files/gcc/14.lua": 'prepend_path("MODULEPATH", "{folder}/of-gcc")',
    "of-gcc/python/4.lua": """\
setenv("SITE_PYTHON", "{folder}/python")
prepend_path("PATH", "{folder}/python/bin")""",
}


def test_a_python_in_a_hierarchy_of_lmod(site: Login) -> None:
    site.sh("mkdir -p files/gcc of-gcc/python")
    for name, text in HIERARCHY.items():
        site.write(name, text.format(folder=site.folder))
    words = "--module-use files --module gcc --module python/4 where.py"
    done = succeeded(shell(site, f"{LAUNCH} {words}", tool="Lmod"))
    assert done.stdout.count(f"rank of {site.folder}/python ") == 2
    alone = shell(site, f"{LAUNCH} --module-use files --module python/4 where.py", tool="Lmod")
    ended(alone, 2, "--module python/4: cannot be loaded here", "module spider")


def test_each_node_takes_its_own_python(site: Login) -> None:
    """A module's folder may be another one on the nodes, as in trees by processor."""
    site.sh("python3 -m venv --without-pip elsewhere")
    text = '#%Module\nprepend-path PATH {}/[expr {{[info hostname] eq "login" ? "python" : '
    site.write("files/python/3", text.format(site.folder) + '"elsewhere"}]/bin\n')
    done = succeeded(shell(site, f"{LAUNCH} --module-use files --module python where.py"))
    assert done.stdout.count(f"rank of {site.folder}/elsewhere ") == 2


SAYS = {
    "Environment Modules": "Unable to locate a modulefile for 'nope'",
    "Lmod": "The following module(s) are unknown:",
}


@pytest.mark.parametrize("tool", MODULES)
def test_a_module_that_does_not_exist(site: Login, tool: str) -> None:
    done = shell(site, f"{LAUNCH} --module-use files --module nope where.py", tool=tool)
    ended(done, 2, "--module nope: cannot be loaded here")
    assert SAYS[tool] in done.stderr
    assert "try: module avail" in done.stderr
    assert site.runs() == []
    done = shell(site, f"{LAUNCH} --module-use nowhere --module python where.py", tool=tool)
    ended(done, 2, "--module-use nowhere: there is no folder")


def test_a_module_without_a_python(site: Login) -> None:
    done = shell(site, f"{LAUNCH} --module-use files --module openmpi where.py")
    ended(done, 2, "no image was given", "--module openmpi brings no Python")


def test_the_active_environment(site: Login) -> None:
    """Under --runtime none always; else one that has a framework, which this has not."""
    activate = ". python/bin/activate"
    done = succeeded(shell(site, activate, f"{LAUNCH} --runtime none where.py"))
    assert done.stdout.count(f"rank of {site.folder}/python ") == 2
    refused = shell(site, activate, f"{LAUNCH} where.py")
    ended(refused, 2, "has neither torch nor TensorFlow", "--image horovod_cpu.sif")
    nothing = shell(site, f"{LAUNCH} --runtime none where.py")
    ended(nothing, 2, "try: activate a virtual or conda environment")


def test_a_conda_environment_by_its_layout(site: Login) -> None:
    site.sh("mkdir python/conda-meta; rm python/bin/activate; touch python/conda-meta/history")
    conda = f"export CONDA_PREFIX={site.folder}/python"
    done = succeeded(shell(site, conda, "runner plan --runtime none --nodes 2 where.py"))
    assert f"CONDA_PREFIX={site.folder}/python" in done.stdout
