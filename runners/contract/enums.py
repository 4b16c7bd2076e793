"""Names that the options, records and messages of a job share, and the base of our enums.

The Python of a node's own imports it too, which may be 3.6.
"""

from enum import Enum

TYPE_CHECKING = False  # without an import of typing's, which would cost each rank's start
if TYPE_CHECKING:
    from typing import TypeVar

    Word = TypeVar("Word", bound="WordEnum")


class WordEnum(str, Enum):
    """One of a closed set of words, as they are typed."""

    def __str__(self) -> "str":
        return str(self.value)

    @classmethod
    def words(cls) -> "tuple[str, ...]":
        return tuple(member.value for member in cls)

    @classmethod
    def of(cls: "type[Word]", word: "object") -> "Word | None":
        """Return the member that is this word, None where none is."""
        return next((member for member in cls if member.value == word), None)


class Controller(WordEnum):
    """Horovod's controller, or that Horovod is not used."""

    MPI = "mpi"
    GLOO = "gloo"
    NONE = "none"


class ProcessGroup(WordEnum):
    """What creates the process group of a trainer's ranks: the world that the gate checks."""

    HOROVOD = "Horovod"
    TORCH = "torch.distributed"
    TENSORFLOW = "tf.distribute"
    MPI = "mpi4py"
    NONE = "none"  # one process, which trains no network


GATED = tuple(group for group in ProcessGroup if group is not ProcessGroup.NONE)
