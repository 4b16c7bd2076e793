"""What the build programs raise; only their `main` functions turn it into an exit code."""


class BuildError(Exception):
    """A step failed. The text says what happened, shows the evidence and gives the next command."""

    exit_code = 1


class Refused(BuildError):
    """This machine or this usage does not allow the build; nothing was started."""

    exit_code = 2
