"""Tells which unsquashfs is safe with images of others. Python 3.6, for a node's own."""

import re

# CVE-2021-40153 and CVE-2021-41072: up to 4.5 an image can make it write anywhere, through a link.
# A distribution's fixed 4.5 and older cannot be told from others by their version.
SAFE_UNSQUASHFS = (4, 5, 1)
VERSION = re.compile(r"version (\d+)\.(\d+)(?:\.(\d+))?")


def unsafe_unsquashfs(version_output: "str") -> "str":
    """Return why it must not unpack such an image, "" where it is safe."""
    match = VERSION.search(version_output)
    version = tuple(int(part or 0) for part in match.groups()) if match else ()
    if version >= SAFE_UNSQUASHFS:
        return ""
    shown = match.group().split()[1] if match else "of unknown version"
    return (
        f"unsquashfs {shown} can be made to write outside of its folder (CVE-2021-41072); "
        "4.5.1 and newer cannot"
    )
