"""Whether an unsquashfs keeps to its folder when it unpacks the image of somebody else."""

import re

# CVE-2021-40153 and CVE-2021-41072: up to 4.5 an image can make it write anywhere, through a link.
# A distribution's mended 4.5 and older cannot be told from others by their version.
SAFE = (4, 5, 1)
VERSION = re.compile(r"version (\d+)\.(\d+)(?:\.(\d+))?")


def danger(said: "str") -> "str":
    """Return why it is not to be run on such an image, "" for none; `said` is of `-version`."""
    found = VERSION.search(said)
    version = tuple(int(part or 0) for part in found.groups()) if found else ()
    if version >= SAFE:
        return ""
    shown = found.group().split()[1] if found else "of unknown version"
    return (
        f"unsquashfs {shown} can be made to write outside of its folder (CVE-2021-41072); "
        "4.5.1 and newer cannot"
    )
