"""Build an image: python3 -m containers.build cpu

Steps: wheels (the host's pip), base, Horovod wheel, image, test. Each is named by the content of
its inputs and skipped when it is there. Everything but the wheels is done by an ordinary user with
`apptainer build --fakeroot`; when root runs this, in the toolbox of the test cluster.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from . import catalogue, chain, debian, pip, process, record, revision, steps, toolbox
from .chain import say
from .errors import BuildError, Refused
from .places import Places
from .plan import REGISTRY_BASE, Base, Plan, tracked_inputs

INTERRUPTED = 130


def parser() -> argparse.ArgumentParser:
    """The command line."""
    top = argparse.ArgumentParser(
        prog="python3 -m containers.build",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    top.add_argument("image", help=f"one of: {', '.join(catalogue.IMAGES)}")
    top.add_argument(
        "--base",
        choices=["auto", "docker", "debian"],
        default="auto",
        help="from a registry, or made of Debian packages (auto: where mmdebstrap is)",
    )
    top.add_argument(
        "--from",
        dest="reference",
        default=REGISTRY_BASE,
        metavar="IMAGE",
        help="the base in a registry (default: %(default)s)",
    )
    pip.add_options(top)
    top.add_argument("--output", type=Path, metavar="FILE", help="default: images/ on scratch")
    top.add_argument("--dry-run", action="store_true", help="say what would be made")
    top.add_argument("--revision", help=argparse.SUPPRESS)  # from root, whose repository it is
    return top


def is_root() -> bool:
    """Whether the steps with Apptainer have to be done by somebody else."""
    return os.geteuid() == 0


def make_plan(options: argparse.Namespace) -> Plan:
    """What the options ask for. Raises Refused."""
    image = catalogue.image(options.image)
    places = toolbox.places(os.environ) if is_root() else Places.locate(os.environ)
    checkout, paths = catalogue.CHECKOUT, tracked_inputs(image)
    return Plan(
        image=image,
        base=Base(choose_base(options.base), options.reference),
        places=places,
        output=find_output(options.output, places.images / f"{image.name}.sif"),
        version=revision.version(checkout),
        revision=options.revision or revision.revision(checkout, paths),
    )


def find_output(asked: Path | None, default: Path) -> Path:
    """The image's path on this machine. Raises Refused."""
    if asked is None:
        return default
    return toolbox.on_host(asked, os.environ) if is_root() else asked.absolute()


def choose_base(asked: str) -> str:
    """`auto` resolved. Refused when the tools for the base asked for are not there."""
    there = is_root() or debian.available()  # the toolbox has the tools
    if asked == "debian" and not there:
        raise Refused(debian.NO_TOOL)
    if asked == "auto":
        return "debian" if there else "docker"
    return asked


def up_to_date(plan: Plan) -> bool:
    """Whether the image is there, built from exactly these inputs."""
    wanted = plan.key  # read now, so that an edit during the build counts as one after it
    present = record.read(plan.output)
    return present is not None and present.key == wanted


def build(plan: Plan, options: argparse.Namespace) -> None:
    """Make the image as an ordinary user. Raises BuildError."""
    steps.require_apptainer()
    with chain.only_build(plan.places.work):
        if not up_to_date(plan):  # another build may just have made it
            chain.carry_out(steps_of(plan, options), plan)


def steps_of(plan: Plan, options: argparse.Namespace) -> list[chain.Step]:
    """All steps of the plan, needed or not. Raises Refused."""
    builder = steps.Builder(plan, steps.environment(plan, os.environ))
    return chain.steps(plan, builder, pip.Source.of(options))


def describe(plan: Plan, options: argparse.Namespace) -> None:
    """Say what a build would make."""
    for step in steps_of(plan, options):
        print(f"{step.name}: {'to be made' if step.needed else 'nothing to do'}")


def delegate(plan: Plan, options: argparse.Namespace) -> None:
    """As root: fetch the wheels here, then go on in the toolbox. Raises BuildError."""
    if not plan.wheels.exists():
        say("wheels, with this machine's pip ...")
        steps.Builder(plan, os.environ).fetch_wheels(pip.Source.of(options))
    passed = [options.image, f"--base={plan.base.kind}", f"--from={plan.base.reference}"]
    passed += [f"--revision={plan.revision}"]
    passed += [f"--output={options.output}"] if options.output else []
    say(f"in the cluster's toolbox, whose /scratch is {plan.places.images.parents[1]}")
    toolbox.become(plan.places, passed)


def main(argv: Sequence[str]) -> int:
    """Build and print the image's path; 1 when it failed, 2 when nothing was started."""
    options = parser().parse_args(argv)
    try:
        with process.stoppable():
            plan = make_plan(options)
            if up_to_date(plan):
                say("nothing changed")
            elif options.dry_run:
                describe(plan, options)
            elif is_root():
                delegate(plan, options)
            else:
                build(plan, options)
            print(toolbox.inside(plan.output, os.environ) if is_root() else plan.output)
    except BuildError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        say("interrupted; temporary files are removed")
        return INTERRUPTED
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
