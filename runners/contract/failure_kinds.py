"""Kinds of failures, as values in the records of `failures/`, which `runner explain` reads.

A record has `version`, `kind`, `rank`, `size`, `host`, `time` (Unix time), `exit_code` and
`message`, a sentence for people, and the fields of its kind. `runner` imports this list too, and
the Python of a node's own, which may be 3.6.
"""

from .enums import WordEnum

TYPE_CHECKING = False  # without an import of typing's, which would cost each rank's start
if TYPE_CHECKING:
    from collections.abc import Mapping

VERSION = 1


class FailureKind(WordEnum):
    """Why a rank failed, or a node before any rank."""

    # How a process ended. `error` is the first line of its own error, as it wrote it.
    EXIT = "exit"
    EXCEPTION = "exception"
    SIGNAL = "signal"
    # Because another rank had ended: its connection broke, or this one was ended by SIGTERM.
    PEER_LOST = "peer-lost"
    ENDED_WITH_OTHERS = "ended-with-others"
    # Ranks that did not become one world
    WORLD_SIZE = "world-size"
    SEVERAL_WORLDS = "several-worlds"
    DIFFERENT_WEIGHTS = "different-weights"
    NO_WORLD_FORMED = "no-world"
    IN_INIT = "ended-in-init"
    NOT_MET = "not-met"
    NO_INTERFACE = "no-interface"
    PORT_TAKEN = "port-taken"
    MISLEADING_NAME = "misleading-host-name"
    RENDEZVOUS = "rendezvous"
    # Checks before the trainer
    DRIVER = "driver"
    CPU = "cpu"
    HOST_MPI = "host-mpi"
    # A node's, before any rank
    NOT_STAGED = "not-staged"
    IMAGE_CHANGED = "image-changed"


# Kind -> its fields
KINDS = {
    # guessed: a line that looks like an error, some time before
    FailureKind.EXIT: ("error", "guessed"),
    FailureKind.EXCEPTION: ("error", "traceback"),
    FailureKind.SIGNAL: ("signal", "asked"),  # asked: signals that somebody had sent before
    FailureKind.PEER_LOST: ("error", "traceback"),
    FailureKind.ENDED_WITH_OTHERS: (),
    FailureKind.WORLD_SIZE: ("tasks", "world", "framework"),
    FailureKind.SEVERAL_WORLDS: ("tasks", "world", "framework", "why"),
    FailureKind.DIFFERENT_WEIGHTS: ("parameter", "cause", "remedy"),
    # alone: frameworks with a process group of one rank; imports: what the trainer had imported
    FailureKind.NO_WORLD_FORMED: ("tasks", "alone", "imports"),
    FailureKind.IN_INIT: (),
    FailureKind.NOT_MET: ("ended", "late", "silent", "unreached"),  # lists of [rank, host]
    FailureKind.NO_INTERFACE: ("wanted", "usable"),
    FailureKind.PORT_TAKEN: ("port",),  # by another user
    FailureKind.MISLEADING_NAME: ("interface",),
    FailureKind.RENDEZVOUS: (),
    FailureKind.DRIVER: ("reason", "evidence"),  # reason: no-driver, no-library, glibc or old
    FailureKind.CPU: ("evidence",),
    FailureKind.HOST_MPI: ("error",),
    FailureKind.NOT_STAGED: ("what",),  # data or image
    FailureKind.IMAGE_CHANGED: ("what",),
}
NO_MEETING = (
    FailureKind.NOT_MET,
    FailureKind.NO_INTERFACE,
    FailureKind.PORT_TAKEN,
    FailureKind.MISLEADING_NAME,
    FailureKind.RENDEZVOUS,
)
NO_WORLD = (
    FailureKind.WORLD_SIZE,
    FailureKind.IN_INIT,
    *NO_MEETING,
    FailureKind.NO_WORLD_FORMED,
    FailureKind.SEVERAL_WORLDS,
)
NO_DRIVER = "no-driver"
SIGTERM = 15
# Words of Horovod 0.28, of Gloo, NCCL and the store in torch.distributed 2.1 to 2.13, and of
# TensorFlow 2.21 (in the message, after "Graph execution error:") and JAX, for a connection that
# its peer has ended, and for a wait for one
OF_A_LOST_PEER = (
    "HorovodInternalError",
    "Horovod has been shut down",
    "gloo/transport/",
    "monitoredBarrier",
    "remote process exited or there was a network error",
    "ncclRemoteError",
    "Connection closed by remote peer",
    "NCCL communicator was aborted",
    "got error: Connection reset by peer",
    "got error: wait timeout",
    "wait timeout after",
    "failed to recv, got 0 bytes",
    "Connection was likely closed",
    "The connection to the C10d store has failed",
    "Error: Connection reset by peer",
    "Error: Broken pipe",
    "ConnectionResetError: ",
    "BrokenPipeError: ",
    "Collective ops is aborted by",
    "Socket closed",
    "RecvAsync is cancelled",
    "heartbeat time",
    "stopped sending heartbeats",
    "Barrier timed out",
)


# What Horovod says in the same words where the rank itself is at fault
OF_ITS_OWN = (
    "ncclCommInitRank failed",
    "unhandled cuda error",
    "invalid usage",
    "out of memory",
    "Mismatched ",
    "Duplicate tensor name",
    "Unsupported data type",
)


def of_lost_peer(error: "str") -> "bool":
    """Whether an error says that another rank has ended."""
    lost = any(words in error for words in OF_A_LOST_PEER)
    return lost and not any(words in error for words in OF_ITS_OWN)


def follows(kind: "FailureKind | None", fields: "Mapping[str, object]") -> "bool":
    """Whether a rank failed only because another had.

    One that srun ends with SIGKILL leaves no record, so one that tells of SIGKILL is a cause.
    """
    if kind == FailureKind.NOT_MET:
        return bool(fields.get("ended"))
    if kind == FailureKind.SIGNAL:
        return bool(fields.get("signal") == SIGTERM)
    return kind in (FailureKind.PEER_LOST, FailureKind.ENDED_WITH_OTHERS)
