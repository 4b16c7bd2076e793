"""The two ends of an ssh in a container.

around RUNTIME NODE,... ENTER STEP... -- COMMAND...   runs COMMAND, for which `ssh NODE ...` works
ask SOCKET ...                                that ssh, with the arguments of ssh(1)
"""

from . import around, ask

COMMANDS = {"around": around.main, "ask": ask.main}


def main(argv: "list[str]") -> "int":
    """Be one of the two; return its exit code."""
    return COMMANDS[argv[0]](argv[1:])
