"""A text in Devanagari becomes tokens in a job, and torch_lm trains on them on two nodes."""

from __future__ import annotations

import hashlib
import json
import random

import pytest

from .conftest import Login, ended, succeeded

pytestmark = pytest.mark.unpacked
# The first article of the Universal Declaration of Human Rights, in Nepali and Hindi.
ARTICLE = (
    "सबै व्यक्तिहरू जन्मजात स्वतन्त्र हुन् ती सबैको समान अधिकार र महत्व छ। निजहरूमा विचार शक्ति र सद्विचार "
    "भएकोले निजहरूले आपसमा भातृत्वको भावनाबाट व्यवहार गर्नु पर्छ।",
    "सभी मनुष्यों को गौरव और अधिकारों के मामले में जन्मजात स्वतन्त्रता और समानता प्राप्त है। उन्हें बुद्धि और "
    "अन्तरात्मा की देन प्राप्त है और परस्पर उन्हें भाईचारे के भाव से बर्ताव करना चाहिए।",
)
# Decodes all tokens, and encodes words that are not in the text.
DECODE = """
import sys
from tokenizers import Tokenizer
import numpy as np
tokenizer = Tokenizer.from_file("tokens/tokenizer.json")
ids = [int(i) for name in ("train", "val") for i in np.fromfile(f"tokens/{name}.bin", "<u2")]
assert tokenizer.decode(ids) == open("text.txt").read()
other = "日本語, क्षेत्रफल\\n"
assert tokenizer.decode(tokenizer.encode(other).ids) == other
print("tokens", len(ids), max(ids))
"""


def text() -> str:
    """Return lines of the articles' words, which come in Zipf's frequencies."""
    chance = random.Random(1)
    words = " ".join(ARTICLE).split()
    frequencies = [1 / number for number in range(1, len(words) + 1)]
    lines = (chance.choices(words, frequencies, k=chance.randint(4, 12)) for _ in range(3000))
    return "\n".join([*ARTICLE, *map(" ".join, lines)])


def test_a_text_in_devanagari_becomes_tokens_and_is_trained_on(login: Login) -> None:
    written = text()
    login.write("text.txt", written)
    words = ("tokenize", "--", "text.txt", "--into", "tokens", "--vocabulary", "400")
    done = succeeded(login.launch("--follow", *words))
    assert "one process" in done.stderr  # the plan's line
    assert not [
        word for word in ("warning", "weights", "world") if word in done.stdout + done.stderr
    ]
    meta = json.loads(login.sh("cat tokens/meta.json"))
    assert meta["sha256"] == hashlib.sha256(f"{written}\n".encode()).hexdigest()
    assert (meta["vocabulary"], meta["dtype"], meta["text"]) == (400, "uint16", "text.txt")
    assert login.told("result")["train_tokens"] == meta["train_tokens"]
    names = ["meta.json", "tokenizer.json", "train.bin", "val.bin"]
    assert login.sh("ls -A tokens; ls -A | grep part || true").split() == names
    script = login.write("decode.py", DECODE)
    inside = ("apptainer", "exec", login.image, "python", script)
    count = meta["train_tokens"] + meta["val_tokens"]
    assert f"tokens {count} " in succeeded(login.run(*inside)).stdout
    assert 0.08 < meta["val_tokens"] / count < 0.12

    small = ("--context", "32", "--width", "32", "--layers", "1", "--max-steps", "30")
    trained = login.launch("--nodes", "2", "--data", "tokens", "--follow", "torch_lm", "--", *small)
    assert "vocabulary 400, " in succeeded(trained).stdout
    result = login.told("result")
    assert result["world_size"] == 2
    assert result["test_loss"] < 5.5  # by chance ln 400, 5.99

    # The folder is not empty now; the vocabulary would be too large; two ranks would be too many.
    message = "cause:         the trainer rejects its arguments: --into tokens: the folder is not"
    ended(login.launch("--wait", *words), 2, message)
    larger = ("tokenize", "--", "text.txt", "--into", "more", "--vocabulary", "60000")
    ended(login.launch("--wait", *larger), 2, "--vocabulary 60000: the text yields ")
    assert "more" not in login.sh("ls -A")
    two = login.launch("--nodes", "2", *words)
    ended(two, 80, "tokenize is one process, and 2 ranks are asked for")
