"""Completion for a shell, as text: click's, which asks `runner` at each Tab.

What no command and no option's values fit is the name of a file, which click's leaves out.
"""

from __future__ import annotations

from click.shell_completion import ShellComplete, get_completion_class

VARIABLE = "_RUNNER_COMPLETE"  # what click looks for in the environment
FILES = {
    "bash": "complete -o nosort -o default -F _runner_completion runner\n",
    "zsh": """\
functions[_runner_words]=$functions[_runner_completion]
_runner_completion() {
    _runner_words
    (( compstate[nmatches] )) || _files
}
""",
    "fish": """\
functions --erase _runner_words
functions --copy _runner_completion _runner_words
function _runner_completion
    set -l found (_runner_words)
    if count $found >/dev/null
        printf '%s\\n' $found
    else
        __fish_complete_path (commandline --current-token)
    end
end
""",
}


def text(shell: str) -> str:
    """Return what a shell, one of FILES, is to source."""
    from . import cli

    made = get_completion_class(shell)
    assert made is not None  # click has all of them
    # Its class for bash would first ask for the version of the bash that is here.
    return f"{ShellComplete.source(made(cli, {}, 'runner', VARIABLE))}\n{FILES[shell]}"
