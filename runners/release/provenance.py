"""Who built an image from what, in the form of SLSA: one line of JSON for each builder.

Formats: in-toto Statement 1 and SLSA provenance 1.0 (slsa.dev/spec/v1.0/provenance).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

STATEMENT = "https://in-toto.io/Statement/v1"
PREDICATE = "https://slsa.dev/provenance/v1"
BUILD_TYPE = "runner-build/v1"  # `runner build` of docs/guides/build.md


def statement(
    *,
    subject: Mapping[str, str],
    source: str,
    version: str,
    image: str,
    builder: str,
    finished: str,
    lock: str,
    packages: list[str],
    proof: str,
) -> dict[str, Any]:
    """Return the statement about files by name, each with its digest "sha256:...".

    `source` is the git revision, `finished` a UTC time, `lock` the digest of the lock, `packages`
    are package URLs, `proof` is what the image's own test printed.
    """
    definition = {
        "buildType": BUILD_TYPE,
        "externalParameters": {"image": image, "version": version},
        "resolvedDependencies": [
            {"name": "source", "digest": {"gitCommit": source}},
            {"name": f"{image}.lock", "digest": _digest(lock)},
            *({"uri": package} for package in packages),
        ],
    }
    details = {
        "builder": {"id": builder},
        "metadata": {"finishedOn": finished},
        "byproducts": [{"name": "self-test", "annotations": {"output": proof}}],
    }
    return {
        "_type": STATEMENT,
        "subject": [{"name": name, "digest": _digest(text)} for name, text in subject.items()],
        "predicateType": PREDICATE,
        "predicate": {"buildDefinition": definition, "runDetails": details},
    }


def _digest(text: str) -> dict[str, str]:
    kind, _, digits = text.partition(":")
    return {kind: digits}
