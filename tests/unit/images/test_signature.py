"""Who signed an image, and with which key one is signed."""

from __future__ import annotations

import pytest

from runners.core.errors import Refused, UsageError
from runners.images.trust import signature

from ..tables import each

ADA, BOB = "9F3CCBD963BD02F7B78058FE1BE313B9AE772BB5", "3CA1E0126FCE0B557FD00EAC2325A56F0CED9C9D"


def test_only_keys_whose_every_object_is_right_have_signed() -> None:
    def signer(key: str, good: bool) -> str:
        text = f'"Fingerprint": "{key.lower()}", "KeyCheck": true, "DataCheck": {str(good).lower()}'
        return "{" + f'"Signer": {{{text}}}' + "}"

    keys = ", ".join([signer(ADA, True), signer(BOB, True), signer(BOB, False)])
    assert signature.verified(f'INFO: x\n{{"Signatures": 2, "SignerKeys": [{keys}]}}') == (ADA,)
    assert signature.verified('{"Signatures": 1, "SignerKeys": null}') == ()
    assert signature.verified("") == ()


KEYS = [(ADA, "Ada <ada@x.org>"), (BOB, "Bob <bob@x.org>")]


@each((ADA, 0), (BOB[-16:].lower(), 1), (BOB[-8:], 1))
def test_a_key_is_named_by_its_fingerprint(wanted: str, number: int) -> None:
    assert signature.choose(KEYS, wanted) == number


def test_the_only_key_needs_no_name() -> None:
    assert signature.choose(KEYS[1:], "") == 0


@each(("", "more than one"), ("9C9D", "is not one of"))
def test_a_key_that_is_not_certain(wanted: str, words: str) -> None:
    with pytest.raises(UsageError, match=words) as error:
        signature.choose(KEYS, wanted)
    assert "Bob <bob@x.org>" in error.value.evidence


def test_without_a_key_the_remedy_makes_one() -> None:
    with pytest.raises(Refused) as error:
        signature.choose([], "")
    assert str(error.value.remedies[0]).startswith("apptainer key newpair")
