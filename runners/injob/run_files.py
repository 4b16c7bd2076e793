"""What a job writes into its run's folder for `runner` to read: JSON files, and lines of its log.

Python 3.6, for what runs on a node's own.
"""

import contextlib
import json
import os
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
RESULT = "result.json"  # the trainer's own
FAILURES = "failures"  # a folder
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")  # all but tabs and ends of lines
UNITS = ("bytes", "kB", "MB", "GB", "TB")
COLOUR = re.compile(r"\x1b\[[0-9;]*m")  # ECMA-48, Select Graphic Rendition


def plain(text: "str") -> "str":
    """Return text without the colours that programs write, some of them into files too."""
    return COLOUR.sub("", text)


def harmless(text: "object") -> "str":
    """Return text with words of others, such as a registry's, in which no terminal is told to do
    anything: colours go, and other control characters are escaped.
    """
    return CONTROL.sub(lambda found: repr(found.group())[1:-1], plain(str(text)))


def human_size(number: "float") -> "str":
    """Return a number of bytes: 40.0 kB, 1.2 GB (powers of 1000, as disks are sold)."""
    if number < 1000:
        return f"{number:.0f} bytes"
    unit = next((n for n in range(1, 4) if number < 1000 ** (n + 1)), 4)
    return f"{number / 1000**unit:.1f} {UNITS[unit]}"


def failure_path(run_dir: "str", name: "object") -> "str":
    """Return the path of a failure's record, `name` is a rank or what failed on a node."""
    return os.path.join(run_dir, FAILURES, f"rank-{name}.json")


def read(path: "str") -> "str":
    """Return a file's text, also a file of the kernel's; "" where it cannot be read."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def write_json(
    path: "str", value: "object", mode: "int" = 0o666, indent: "int | None" = None
) -> None:
    """Write a file by rename, so that nobody reads half of it. Raises OSError."""
    part = f"{path}.{os.urandom(8).hex()}.part"  # processes of several nodes may write one file
    descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    try:
        with open(descriptor, "w", encoding="utf-8") as file:
            json.dump(value, file, indent=indent)
        os.replace(part, path)
    except OSError:  # a full disk
        with contextlib.suppress(OSError):
            os.remove(part)
        raise


def keep(run_dir: "str", name: "str", value: "object", in_result: "str" = "") -> None:
    """Write a file that may be missing; with a key, its value into the trainer's result too."""
    path = os.path.join(run_dir, RESULT)
    with contextlib.suppress(OSError, ValueError):  # a full disk; a result of another form
        write_json(os.path.join(run_dir, name), value)
        if in_result and os.path.exists(path):
            with open(path, encoding="utf-8") as file:
                result = json.load(file)
            if isinstance(result, dict):
                write_json(path, {**result, in_result: value}, indent=2)


def forget(run_dir: "str", name: "str") -> None:
    """Remove what an earlier start of the job has left."""
    with contextlib.suppress(OSError):
        os.remove(os.path.join(run_dir, name))
