"""Lines of a job's log that `runner` reads, and text for terminals. Python 3.6 or newer."""

import re

START = "runner: start "  # and its number: here a requeued job starts
FAILED = "runner: rank {rank} failed: "  # and how; the record has the same with more
NO_MODULE = "runner: no module "  # and its name: the job's script could not load it

# Before each line of a rank, one or several: by torch, `[rank1]: ` and `[ROLE0]:`; by mpirun
# --tag-output and horovodrun, `[1,0]<stderr>:`; by accelerate's test, `stderr: `; by srun --label,
# `0: `; by mpiexec -l, `[0] `; by Ray, `(Worker pid=42) `; by pdsh, `n1: ` and `10.0.0.1: `; by
# collectors of logs, a time
TIME = r"\[?\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d[.,\d]*(?:Z|[+-]\d\d:?\d\d)?\]?(?= )(?: \|)?"
OF_RANK = (
    r"(?:(?:\[[A-Za-z][\w.-]*:?\d+\]:|[^\[\n]{0,24}\[[\w,:.@-]+\]<std(?:out|err)>:"
    r"|std(?:out|err):|\([A-Za-z_]\w* pid=\d+[^)\n]{0,40}\)|[ ]{0,5}\d{1,5}:(?= )|\[\d{1,5}\](?= )"
    r"|(?:\d{1,3}\.){3}\d{1,3}: |[a-z][a-z_-]{0,30}[\da-z-]*\d: |[ ]{0,3}\| (?=[\d|])"
    "|" + TIME + ")[ ]?)+"
)
# The name of an exception, as in the last line of a traceback: most say Error, some do not; the
# names of metrics, such as val.error and a.queue.size, are no exceptions
OF_A_TYPE = (
    r"(?:[\w.]*(?:Error|Exception|Interrupt|gaierror)\b(?!\.\w)|(?:\w+\.)+error(?=: [^\d-])"
    r"|(?:\w+\.)*(?:exceptions?|errors?|exc|_error|socket|subprocess|process|zipfile|queue|lib)"
    r"\.(?-i:[A-Z]\w+|timeout)(?=: |$))"
)
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")  # all but tabs and ends of lines
UNITS = ("bytes", "kB", "MB", "GB", "TB")
COLOUR = re.compile(r"\x1b\[[0-9;]*m")  # ECMA-48, Select Graphic Rendition


def plain(text: "str") -> "str":
    """Return text without the colours that programs write, some of them into files too."""
    return COLOUR.sub("", text)


def harmless(text: "object") -> "str":
    """Return text of others, such as a registry's, without commands for a terminal.

    Colours are removed, and other control characters are escaped.
    """
    return CONTROL.sub(lambda found: repr(found.group())[1:-1], plain(str(text)))


def human_size(number: "float") -> "str":
    """Return a number of bytes: 40.0 kB, 1.2 GB (powers of 1000, as disks are sold)."""
    if number < 1000:
        return f"{number:.0f} bytes"
    unit = next((n for n in range(1, 4) if number < 1000 ** (n + 1)), 4)
    return f"{number / 1000**unit:.1f} {UNITS[unit]}"
