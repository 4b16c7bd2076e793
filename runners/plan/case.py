"""What a plan starts from: all that is known of request, site and image, gathered before."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ..core.model import Choice, ImageInfo, JobSpec, Resources, Site


@dataclass(frozen=True)
class Case:
    """The request, the site and the image.

    `reasons` has, by setting, why the request has its value, where it was not typed; `unasked` are
    the settings that only a default or the trainer's preset brought. `policy` is how the image
    meets the policies, and `verified_digest` what it had then. `filesystems` are the kinds, such as
    nfs4, of those on which its files and folders lie.
    """

    spec: JobSpec
    site: Site
    image: ImageInfo
    reasons: Mapping[str, str] = field(default_factory=dict)
    unasked: frozenset[str] = frozenset()
    policy: tuple[Choice, ...] = ()
    verified_digest: str = ""
    filesystems: Mapping[Path, str] = field(default_factory=dict)

    @property
    def resources(self) -> Resources:
        """What is asked of the scheduler."""
        return self.spec.resources

    def why(self, setting: str) -> str:
        """Return why the request has a setting."""
        return self.reasons.get(setting, "as asked")

    def asking(self, **changes: Any) -> Case:
        """Return the same with another request, of which `resources` may be a part."""
        return replace(self, spec=replace(self.spec, **changes))
