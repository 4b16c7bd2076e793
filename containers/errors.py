"""What the build programs raise; only command lines turn it into an exit code."""


class BuildError(Exception):
    """A step failed. The text says what happened, shows the evidence and gives the next command."""

    exit_code = 1


class UsageError(BuildError):
    """What was asked for is wrong: a name, an option, a file's content."""

    exit_code = 2


class Refused(BuildError):
    """This machine does not allow the build; nothing was started."""

    exit_code = 80
