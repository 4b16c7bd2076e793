"""What the tests of sites share: a job as a value, profiles in a folder of their own."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from runners.core.model import ImageInfo, JobSpec, Resources
from runners.core.site import Profile
from runners.core.trainer import Framework, Trainer
from runners.sites import load

SHIPPED = ("alvis", "neuron", "perlmutter", "polaris", "thetagpu", "tuhpc")
TRAINER = Trainer("torch_mnist", "recipes.torch_mnist", None, (), Framework.PYTORCH)


def environment(folder: Path) -> dict[str, str]:
    """Return an environment whose user's profiles lie in `folder`/runner/sites."""
    return {"XDG_CONFIG_HOME": str(folder), "RUNNER_SITES_PATH": "", "USER": "ada"}


def write(folder: Path, name: str, text: str) -> Path:
    """Write a profile of the user's; return its path."""
    path = folder / "runner" / "sites" / f"{name}.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def shipped(name: str) -> Profile:
    """Return a profile as it is shipped, whatever this machine has."""
    return load.profile(name, environment(Path("/nonexistent")))


def job(profile: Profile | None = None, **asked: Any) -> JobSpec:
    """Return a job of Slurm options, with the site's settings below them."""
    names = set(Resources.__dataclass_fields__)
    launch = {
        key.replace("-", "_"): value for key, value in (profile.launch if profile else {}).items()
    }
    resources = {key: value for key, value in {**launch, **asked}.items() if key in names}
    others = {key: value for key, value in asked.items() if key not in names}
    spec = JobSpec(
        "job",
        ImageInfo(Path("/i.sif")),
        TRAINER,
        Resources(**resources),
        Path("/scratch/ada/job/runs"),
    )
    return replace(spec, **others)
