"""Kinds of failures, as values in the records of `failures/`, which `runner explain` reads.

A record has `version`, `kind`, `rank`, `size`, `host`, `time` (Unix time), `exit_code` and
`message`, a sentence for people, and the fields of its kind. `runner` imports this list too, and
the Python of a node's own, which may be 3.6.
"""

TYPE_CHECKING = False  # without an import of typing's, which would cost each rank's start
if TYPE_CHECKING:
    from collections.abc import Mapping

VERSION = 1

# How a process ended. `error` is the first line of its own error, as it wrote it.
EXIT, EXCEPTION, SIGNAL = "exit", "exception", "signal"
# Because another rank had ended: its connection broke, or this one was ended by SIGTERM.
PEER_LOST, ENDED_WITH_OTHERS = "peer-lost", "ended-with-others"
# Ranks that did not become one world
WORLD_SIZE, IN_INIT, NOT_MET = "world-size", "ended-in-init", "not-met"
NO_INTERFACE, PORT_TAKEN, MISLEADING_NAME = "no-interface", "port-taken", "misleading-host-name"
RENDEZVOUS, NO_WORLD_FORMED, SEVERAL_WORLDS = "rendezvous", "no-world", "several-worlds"
DIFFERENT_WEIGHTS = "different-weights"
# Checks before the trainer
DRIVER, CPU, HOST_MPI = "driver", "cpu", "host-mpi"
# A node's, before any rank
NOT_STAGED, IMAGE_CHANGED = "not-staged", "image-changed"

# Kind -> its fields
KINDS = {
    EXIT: ("error", "guessed"),  # guessed: a line that looks like an error, some time before
    EXCEPTION: ("error", "traceback"),
    SIGNAL: ("signal", "asked"),  # asked: signals that somebody had sent before
    PEER_LOST: ("error", "traceback"),
    ENDED_WITH_OTHERS: (),
    WORLD_SIZE: ("tasks", "world", "framework"),
    SEVERAL_WORLDS: ("tasks", "world", "framework", "why"),
    DIFFERENT_WEIGHTS: ("parameter", "cause", "remedy"),
    # alone: frameworks with a process group of one rank; imports: what the trainer had imported
    NO_WORLD_FORMED: ("tasks", "alone", "imports"),
    IN_INIT: (),
    NOT_MET: ("ended", "late", "silent", "unreached"),  # lists of [rank, host]
    NO_INTERFACE: ("wanted", "usable"),
    PORT_TAKEN: ("port",),  # by another user
    MISLEADING_NAME: ("interface",),
    RENDEZVOUS: (),
    DRIVER: ("reason", "evidence"),  # reason: no-driver, no-library, glibc or old
    CPU: ("evidence",),
    HOST_MPI: ("error",),
    NOT_STAGED: ("what",),  # data or image
    IMAGE_CHANGED: ("what",),
}
NO_MEETING = (NOT_MET, NO_INTERFACE, PORT_TAKEN, MISLEADING_NAME, RENDEZVOUS)
NO_WORLD = (WORLD_SIZE, IN_INIT, *NO_MEETING, NO_WORLD_FORMED, SEVERAL_WORLDS)
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


def follows(kind: "str", fields: "Mapping[str, object]") -> "bool":
    """Whether a rank failed only because another had.

    One that srun ends with SIGKILL leaves no record, so one that tells of SIGKILL is a cause.
    """
    if kind == NOT_MET:
        return bool(fields.get("ended"))
    if kind == SIGNAL:
        return bool(fields.get("signal") == SIGTERM)
    return kind in (PEER_LOST, ENDED_WITH_OTHERS)
