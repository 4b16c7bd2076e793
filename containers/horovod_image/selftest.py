"""Proof that an image works, run inside it by `apptainer test` and at the end of each build.

Asserts what Horovod was really built with, and sums over two ranks with each framework and each
controller, and with mpi4py. Each framework is started once: its ranks sum over Gloo, then over MPI.
Standard library only up to where a rank imports its framework.

What must be there, the lock in the image says. With NCCL's package in it Horovod must have NCCL and
GPU code too, though no GPU is used. The sums are of tensors in the CPU's memory, which such an
image must manage as well, and each rank imports its framework without a driver.

Then what the trainers need besides the frameworks is imported, with a model of transformers and one
of torchvision: what was left out of the packages (the .slim list) must not be missed. torch.compile
compiles a function, for the GPU where there is one.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

NEEDED = {"controllers": {"MPI", "Gloo"}, "operations": {"MPI", "Gloo"}}
# Packages, with the module of Horovod and its name for the framework.
FRAMEWORKS = {
    "torch": ("torch", "PyTorch"),
    "tensorflow": ("tensorflow", "TensorFlow"),
    "tensorflow-cpu": ("tensorflow", "TensorFlow"),
}
BUILT = ("CUDA", "NCCL", "MPI", "Gloo")  # what Horovod tells by cuda_built() and so on
KNOWN = {"controllers": ("MPI", "Gloo"), "operations": ("NCCL", "MPI", "Gloo")}
TOLD = ("libraries:", "torch.compile:", "providers of libibverbs:")  # lines of libraries.py
HEADINGS = {
    "Available Frameworks:": "frameworks",
    "Available Controllers:": "controllers",
    "Available Tensor Operations:": "operations",
}
# By CUDA's major version, as the horovod_wheel*.def ask for them.
CAPABILITIES = {
    "12": {"7.0", "7.5", "8.0", "8.6", "8.9", "9.0", "9.0+PTX"},
    "13": {"7.5", "8.0", "9.0", "10.0", "10.0+PTX", "12.0"},
}
TOOLS = ("ps", "top", "py-spy")
RANKS = 2
# For one run of two ranks; 6 s are normal, a cold network file system is slow, emulation slower.
SECONDS = int(os.environ.get("SELFTEST_SECONDS", "180"))
# Both programs would ask the scheduler of the job that runs this test for hosts.
SCHEDULER = ("SLURM_", "PMI_", "PMIX_", "OMPI_", "PBS_", "HOROVOD_")
KEPT = ("OMPI_MCA_btl_vader_single_copy_mechanism",)
START = {
    "mpi": ["mpirun", "--oversubscribe", "--bind-to", "none", "-np", str(RANKS)],
    "gloo": ["horovodrun", "--gloo", "--network-interfaces", "lo", "-np", str(RANKS)],
}


class Failed(Exception):
    """The image is not what its name says."""


def parse_build(text: str) -> dict[str, list[str]]:
    """The checked names per heading of `horovodrun --check-build`."""
    found: dict[str, list[str]] = {name: [] for name in HEADINGS.values()}
    heading = ""
    for line in map(str.strip, text.splitlines()):
        heading = HEADINGS.get(line, heading)
        if heading and line.startswith("[X]"):
            found[heading].append(line[3:].strip())
    return found


def run(command: list[str]) -> subprocess.CompletedProcess[str]:
    """Run with a clean environment; standard error joins standard output. Failed on a hang."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(SCHEDULER) or k in KEPT}
    bin_dir = os.path.dirname(sys.executable)
    kept["PATH"] = f"{bin_dir}:{kept.get('PATH', '/usr/bin:/bin')}"
    # `apptainer build --fakeroot` runs this as root of its own namespace.
    kept |= {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    kept |= {"OMP_NUM_THREADS": "1"}
    out, together = subprocess.PIPE, subprocess.STDOUT
    try:
        return subprocess.run(
            command, env=kept, stdout=out, stderr=together, text=True, timeout=SECONDS
        )
    except subprocess.TimeoutExpired as error:
        raise Failed(f"no answer after {SECONDS} s: {' '.join(command)}\n{error.output}") from error


def mpi4py_rank() -> int:
    """One rank of a sum that knows nothing of Horovod."""
    from mpi4py.MPI import COMM_WORLD as world

    total = [world.allreduce(world.rank + 1.0)]
    print(f"sum={total} size={world.size} controller=mpi ", flush=True)
    return 0


def rank(framework: str, controller: str, port: str = "") -> int:
    """One rank: sum over all ranks, and say so only when everything is right.

    With the port of a rendezvous it sums over Gloo first, in the same process.
    """
    if framework == "mpi4py":
        return mpi4py_rank()
    if framework == "torch":
        import horovod.torch as hvd
        from torch import tensor
    else:
        import horovod.tensorflow as hvd
        from tensorflow import constant as tensor
    has = [name for name in BUILT if getattr(hvd, f"{name.lower()}_built")()]
    print("built:", *has, flush=True)
    if port:
        variables = gloo_variables(port)
        os.environ.update(variables)
        add_up(hvd, tensor, "gloo")
        # Once enabled in a process, Horovod's Gloo connects beside MPI too (0.28.1): the interface
        # stays, as the machine's own name may not resolve.
        for name in variables.keys() - {"HOROVOD_GLOO_IFACE"}:
            del os.environ[name]
    add_up(hvd, tensor, controller)
    return 0


def add_up(hvd: Any, tensor: Any, controller: str) -> None:
    """Sum over all ranks by this controller, and print what came."""
    hvd.init()
    total = hvd.allreduce(tensor([hvd.rank() + 1.0]), op=hvd.Sum).numpy().tolist()
    enabled = {"mpi": hvd.mpi_enabled, "gloo": hvd.gloo_enabled}[controller]()
    print(
        f"sum={total} size={hvd.size()} controller={controller if enabled else 'other'} ",
        flush=True,
    )
    hvd.shutdown()


def gloo_variables(port: str) -> dict[str, str]:
    """What makes a rank that mpirun started one of Gloo's; all are on this machine."""
    rank, size = (os.environ[f"OMPI_COMM_WORLD_{name}"] for name in ("RANK", "SIZE"))
    places = {"RANK": rank, "LOCAL_RANK": rank, "CROSS_RANK": "0"}
    sizes = {"SIZE": size, "LOCAL_SIZE": size, "CROSS_SIZE": "1"}
    rendezvous = {"ADDR": "127.0.0.1", "PORT": port}
    return {
        **{f"HOROVOD_{name}": text for name, text in {**places, **sizes}.items()},
        **{f"HOROVOD_GLOO_RENDEZVOUS_{name}": text for name, text in rendezvous.items()},
        "HOROVOD_CONTROLLER": "gloo",
        "HOROVOD_CPU_OPERATIONS": "gloo",
        "HOROVOD_GLOO_IFACE": "lo",
        "HOROVOD_HOSTNAME": "localhost",
    }


def rendezvous() -> int:
    """Start the server by which the ranks of Gloo meet; return its port."""
    from horovod.runner.common.util.hosts import get_host_assignments, parse_hosts
    from horovod.runner.http.http_server import RendezvousServer

    server = RendezvousServer()
    port: int = server.start()
    server.init(get_host_assignments(parse_hosts(f"localhost:{RANKS}"), RANKS))
    return port


def prove(framework: str, controller: str) -> None:
    """Two ranks must both report the right sum. Raises Failed with their output."""
    began = time.monotonic()
    # Horovod 0.28.1: two frameworks in one process over MPI abort at shutdown, when the first of
    # its two libraries ends MPI. So each has a process of its own.
    done = run([*START[controller], sys.executable, __file__, "rank", framework, controller])
    check_sums(framework, [controller], done)
    print(f"{framework} over {controller}: {RANKS} ranks agree ({time.monotonic() - began:.1f} s)")


def prove_both(framework: str) -> list[str]:
    """The same over Gloo and MPI, by the same two ranks; return what their Horovod has."""
    began = time.monotonic()
    ranks = [sys.executable, __file__, "rank", framework, "mpi", str(rendezvous())]
    done = run([*START["mpi"], *ranks])
    built = re.search(r"^built: (.*)$", done.stdout, re.MULTILINE)
    if not built:
        raise Failed(f"Horovod cannot be imported for {framework}:\n{done.stdout}")
    names = built[1].split()
    if set(names) >= NEEDED["controllers"]:  # else `require` tells what is missing
        check_sums(framework, ["gloo", "mpi"], done)
        seconds = time.monotonic() - began
        print(f"{framework} over gloo and mpi: {RANKS} ranks agree ({seconds:.1f} s)", flush=True)
    return names


def check_sums(
    framework: str, controllers: list[str], done: subprocess.CompletedProcess[str]
) -> None:
    """Each rank must have printed the right sum. Raises Failed with the output."""
    for controller in controllers:
        expected = f"sum=[{float(sum(range(1, RANKS + 1)))}] size={RANKS} controller={controller} "
        if done.returncode or done.stdout.count(expected) != RANKS:
            fault = f"{framework} over {controller}, {RANKS} ranks: wrong result"
            raise Failed(f"{fault}\n{done.stdout}")


def require(kind: str, needed: set[str], there: list[str]) -> None:
    """Print what is there. Raises Failed when something needed is not."""
    if missing := needed - set(there):
        raise Failed(f"Horovod was built without {', '.join(sorted(missing))} ({kind})")
    print(f"{kind}: {', '.join(there)}", flush=True)


def prove_gpu_code(cuda: str) -> None:
    """Each extension must have code for each generation of GPUs. Raises Failed."""
    from .labels import capabilities, horovod_libraries

    for framework, library in horovod_libraries().items():
        require(f"GPU code for {framework}", CAPABILITIES[cuda], capabilities(library))


def prove_program(name: str, fault: str) -> None:
    """Run a part of libraries.py and print what it says. Raises Failed with `fault`."""
    done = run([sys.executable, "-W", "ignore", "-m", "horovod_image.libraries", name])
    if done.returncode:
        raise Failed(f"{fault}:\n{done.stdout}")
    told = [line for line in done.stdout.splitlines() if line.startswith(TOLD)]
    print(*told, sep="\n", flush=True)  # what comes before are TensorFlow's notes


def prove_libraries() -> None:
    """Import the libraries of the trainers, and compile a function by torch.compile. Failed."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = folder
        fault = "a library of the trainers cannot be imported, or torch.compile does not work"
        prove_program("trainers", fault)


def prove_tools() -> None:
    """Look for the programs that show what a job does. Raises Failed."""
    folders = f"{os.path.dirname(sys.executable)}:{os.environ.get('PATH', '/usr/bin:/bin')}"
    if missing := [name for name in TOOLS if not shutil.which(name, path=folders)]:
        raise Failed(f"missing: {', '.join(missing)}")


def locked() -> set[str]:
    """The packages that this image was made of, by its lock."""
    (lock,) = Path(sys.prefix).glob("*.lock")
    lines = lock.read_text(encoding="utf-8").splitlines()
    return {line.partition("==")[0] for line in lines if not line.startswith("#")}


def prove_all() -> None:
    """Prove what our images must have. Raises Failed with the evidence."""
    packages = locked()
    frameworks = dict(named for package, named in FRAMEWORKS.items() if package in packages)
    cuda = next((major for major in CAPABILITIES if f"nvidia-nccl-cu{major}" in packages), "")
    there = [prove_both(framework) for framework in frameworks]
    both = [name for name in BUILT if all(name in names for names in there)]
    print(f"frameworks: {', '.join(frameworks.values())}")
    for kind, known in KNOWN.items():
        needed = NEEDED[kind] | ({"NCCL"} if cuda and kind == "operations" else set())
        require(kind, needed, [name for name in both if name in known])
    if cuda:
        require("GPUs", {"CUDA"}, [name for name in both if name == "CUDA"])
        prove_gpu_code(cuda)
    prove("mpi4py", "mpi")
    prove_libraries()
    prove_program("verbs", "libibverbs or its providers are missing")
    prove_tools()


def main(words: list[str]) -> int:
    """Run all checks, or `prove FRAMEWORK CONTROLLER`; 1 with the evidence when one fails."""
    try:
        if words[:1] == ["prove"]:
            prove(*words[1:])
        else:
            prove_all()
    except Failed as error:
        print(f"selftest failed: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(rank(*sys.argv[2:]) if sys.argv[1:2] == ["rank"] else main(sys.argv[1:]))
