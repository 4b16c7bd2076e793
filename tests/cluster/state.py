"""Where everything lies on the host. Nothing here is in the checkout."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from .design import DEFAULT, Design

CHECKOUT = Path(__file__).resolve().parents[2]
USER, UID = "ada", 1000
OTHER = "bob"  # a second ordinary user, for what nobody may do to ada
UIDS = {USER: UID, OTHER: 1001}


def cache_root(environ: Mapping[str, str]) -> Path:
    """The project's cache folder: RUNNER_CACHE, else below XDG_CACHE_HOME, else below ~/.cache."""
    if environ.get("RUNNER_CACHE"):
        return Path(environ["RUNNER_CACHE"]).absolute()
    base = environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base).absolute() / "horovod-runner"


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Only one process at a time changes *folder*; others wait."""
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / "lock", "w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


@dataclass(frozen=True)
class State:
    """One cluster's folders. Two clusters never share a State; they may share the cache."""

    cache: Path
    root: Path

    @classmethod
    def locate(cls, folder: str | None = None) -> State:
        """The cluster at *folder*, at RUNNER_TEST_CLUSTER, or the cache's own."""
        cache = cache_root(os.environ)
        folder = folder or os.environ.get("RUNNER_TEST_CLUSTER")
        return cls(cache, Path(folder).absolute() if folder else cache / "cluster")

    @property
    def home(self) -> Path:
        """/home of every node."""
        return self.root / "home"

    @property
    def scratch(self) -> Path:
        """/scratch of every node."""
        return self.root / "scratch"

    @property
    def etc(self) -> Path:
        """Configuration written by `up`: slurm/, munge/, hosts/NODE."""
        return self.root / "etc"

    @property
    def namespaces(self) -> Path:
        """One file per node, on which its network namespace is mounted."""
        return self.root / "ns"

    @property
    def mountpoint(self) -> Path:
        """An empty folder; each node and toolbox mounts its root here in its own namespace."""
        return self.root / "mnt"

    @property
    def logs(self) -> Path:
        """/var/log of each node, kept after `down` for the post-mortem."""
        return self.root / "log"

    @property
    def installs(self) -> Path:
        """/opt/installs of every node: virtual environments by content, and `current`."""
        return self.root / "installs"

    @property
    def environments(self) -> Path:
        """Virtual environments by content, for all clusters; `installs` has hard links."""
        return self.cache / "environments"

    @property
    def settings(self) -> Path:
        """What the running cluster was started with."""
        return self.root / "settings.json"

    @property
    def design(self) -> Design:
        """What the cluster was last started with; the default one before the first start."""
        return Settings.load(self.settings).design

    def create_shared(self) -> None:
        """Make the folders that outlive the cluster; a user's own belong to the user.

        In scratch/shared everybody may write, as in /tmp.
        """
        folders = (self.home, self.scratch, self.installs)
        for folder in (*folders, self.logs, self.namespaces, self.mountpoint):
            folder.mkdir(parents=True, exist_ok=True)
            folder.chmod(0o755)
        for user, uid in UIDS.items():
            for folder in (self.home / user, self.scratch / user):
                if not folder.exists():
                    folder.mkdir(mode=0o755)
                    os.chown(folder, uid, uid)
        shared = self.scratch / "shared"
        shared.mkdir(exist_ok=True)
        shared.chmod(0o1777)


@dataclass(frozen=True)
class Settings:
    """What the cluster was last started with; *starts* counts its starts."""

    fingerprint: str = ""
    starts: int = 0
    design: Design = DEFAULT

    @classmethod
    def load(cls, path: Path) -> Settings:
        """The settings in *path*, or the initial ones when there are none."""
        if not path.exists():
            return cls()
        data = json.loads(path.read_text())
        return cls(data["fingerprint"], data["starts"], Design.from_json(data.get("design", {})))

    def save(self, path: Path) -> None:
        """Write to *path*, whole or not at all."""
        part = path.with_suffix(".part")
        part.write_text(json.dumps(asdict(self)))
        part.replace(path)
