"""GPU jobs on nodes without a GPU: Slurm counts GPUs here that nobody has built in."""

from __future__ import annotations

import json
import re

from .conftest import IMAGE, Done, Login, ended, succeeded

# The labels alone: jobs are held before they start, or only planned.
LABELS = {
    "horovod.version": "0.28.1",
    "horovod.controllers": "mpi,gloo",
    "horovod.operations": "nccl,gloo",
    "horovod.frameworks": "pytorch,tensorflow",
    "cuda.version": "12.8",
    "mpi.flavour": "openmpi",
    "recipes": "torch_mnist",
}
HELD = "--sbatch-arg=--hold"
GPUS = ("-p", "gpu", "--gpus-per-node", "A100:2")
LIBRARIES = "/usr/lib/x86_64-linux-gnu"
LOADS = "import ctypes; ctypes.CDLL('libcuda.so'); print('LOADED')"


def test_a_node_without_the_driver_is_explained(login: Login) -> None:
    """As with a node whose driver is broken."""
    trainer = login.write("gpu.py", "print('STARTED')")
    done = ended(login.launch(*GPUS, "--nv", "--force", "--follow", "--all", trainer), 89)
    assert re.search(r"runner: GPUs were requested, but n\d has no NVIDIA driver", done.stdout)
    assert "--no-nv to run on CPUs" in done.stdout
    assert "STARTED" not in done.stdout
    assert "Traceback" not in done.stdout


def test_the_driver_alone_was_given_and_that_is_what_is_said(login: Login) -> None:
    trainer = login.write("gpu.py", "print('STARTED')")
    done = ended(login.launch("--nv", "--force", "--follow", "--all", trainer), 89)
    assert re.search(r"runner: --nv was given, but n\d has no NVIDIA driver", done.stdout)


def test_gpus_for_an_image_without_cuda_are_refused(login: Login) -> None:
    trainer = login.write("gpu.py", "print('STARTED')")
    ended(login.launch("--gpus-per-node", "A100:2", trainer), 80, "horovod_cpu.sif cannot use them")
    why = "--nv is for GPUs, but horovod_cpu.sif cannot use them"
    done = ended(login.launch("--nv", trainer), 80, why)
    assert f"try: runner launch --image {IMAGE} {trainer}\n" in done.stderr
    assert login.runs() == []


def labelled(login: Login, name: str = "horovod_gpu.sif", **labels: str) -> None:
    """Make an image that has nothing but its labels."""
    made = {**LABELS, **labels}
    login.sh(f"mkdir -p {name}/.singularity.d")
    login.write(f"{name}/.singularity.d/labels.json", json.dumps(made))


def of_the_job(login: Login, name: str) -> str:
    """Return what Slurm has of a held job's GPUs, and end it."""
    id = login.told("status", name)["id"]
    shown = login.sh(f"scontrol show job {id}; scancel {id}")
    found = re.search(r"TresPerNode=(\S+)", shown)
    return found[1].replace("gres:gpu", "gres/gpu") if found else ""


def test_the_plain_launch_of_an_image_for_gpus_requests_them(login: Login) -> None:
    labelled(login)
    words = ("launch", "--image", "horovod_gpu.sif", HELD, "--cpus-per-task", "1")
    done = succeeded(login.runner(*words, "--nodes", "2"))
    why = "gpus-per-node: 4, since horovod_gpu.sif is for GPUs and nodes of cpu have 4\n"
    assert why in done.stderr
    assert "\n2 nodes x 4 ranks, 1 CPU each, GPUs on each node: 4, " in done.stderr
    assert of_the_job(login, "torch_mnist-1") == "gres/gpu:4"
    own = login.write("own.py", "print('hello')")
    done = succeeded(login.runner(*words, own))
    assert "1, since horovod_gpu.sif is for GPUs and nodes of cpu have 4; " in done.stderr
    assert "--gpus-per-node 4 for all of a node\n" in done.stderr
    assert of_the_job(login, "own-1") == "gres/gpu:1"
    done = succeeded(login.runner(*words, "--nodes", "2", "--gpus-per-node", "0", own))
    assert "GPU" not in done.stderr
    assert of_the_job(login, "own-2") == ""
    done = succeeded(login.runner(*words, "--sweep", "lr=1,2", own))
    assert "2 runs" in done.stderr
    assert "1, since horovod_gpu.sif is for GPUs" in done.stderr
    assert of_the_job(login, "own-3_0") == "gres/gpu:1"
    login.sh("scancel --me")


def test_within_an_allocation_the_gpus_are_its_own(login: Login) -> None:
    labelled(login)
    launch = "runner launch --scheduler allocation --image horovod_gpu.sif --dry-run torch_mnist"
    for gpus, tasks in (("--gres gpu:A100:2", 2), ("--gpus-per-node 3", 3), ("--gpus 2", 1)):
        script = login.sh(f"salloc -Q --nodes 2 --ntasks-per-node 4 {gpus} bash -c '{launch}'")
        assert "nodes of job" in script
        assert re.search(rf"^srun .*--gpus-per-node={tasks} ", script, re.MULTILINE), script
    done = succeeded(login.run("bash", "-ec", f"salloc -Q --nodes 2 bash -c '{launch}'"))
    assert "have none: the job runs on CPUs" in done.stderr


def test_without_a_scheduler_what_nvidia_smi_lists_counts(login: Login) -> None:
    labelled(login)
    login.sh("mkdir bin")
    lists = "".join(f"echo 'GPU {n}: H100 (UUID: GPU-{n})'\n" for n in range(3))
    login.write("bin/nvidia-smi", f"#!/bin/sh\n{lists}")
    login.sh("chmod +x bin/nvidia-smi")
    launch = "PATH=$PWD/bin:$PATH runner launch --scheduler local --image horovod_gpu.sif --dry-run"
    script = login.sh(f"{launch} torch_mnist")
    assert "# gpus-per-node: 3 (horovod_gpu.sif is for GPUs and this machine has 3)" in script
    script = login.sh(f"CUDA_VISIBLE_DEVICES=0,2 {launch} torch_mnist")
    assert (
        "gpus-per-node: 2 (horovod_gpu.sif is for GPUs and CUDA_VISIBLE_DEVICES names 2)" in script
    )


def with_library(login: Login, library: str) -> Done:
    """Run a trainer that opens the driver's library as Horovod does; `library` stands in for it."""
    trainer = login.write("gpu.py", LOADS)
    bind = f"{library}:{LIBRARIES}/libcuda.so.1"
    return login.launch("--scheduler", "local", "--nv", "--force", "--bind", bind, trainer)


def test_horovod_finds_the_drivers_library_under_its_own_name(login: Login) -> None:
    login.sh(f"apptainer exec {IMAGE} cp /lib/x86_64-linux-gnu/libm.so.6 library")
    done = succeeded(with_library(login, "library"))
    assert "| LOADED" in done.stdout


def test_a_library_of_a_newer_host_is_explained(login: Login) -> None:
    """The nodes are Debian 13, the image is Debian 12."""
    library = login.sh(f"realpath {LIBRARIES}/libsystemd.so.0").strip()
    done = ended(with_library(login, library), 89)
    assert "needs a newer C library than the image has" in done.stdout
    assert re.search(r"it needs GLIBC_2\.\d+, the image has glibc 2\.36", done.stdout)
