"""Turn a text into the tokens that torch_lm trains on, with the tokenizers library.

TEXT is a file in UTF-8, of any language. Its last tenth, from the start of a line, is for
validation. A byte-level BPE tokenizer is trained on the rest; it encodes every text, without
unknown tokens. DIR, a new or empty folder, gets all of this or nothing:
    train.bin, val.bin    little-endian token numbers, as recipes/tokens.py reads them
    meta.json             size of the vocabulary, type of the numbers, SHA-256 of the text
    tokenizer.json        to encode and decode: tokenizers.Tokenizer.from_file

Run it, as one process:
    runner launch --image horovod_cpu.sif tokenize -- TEXT --into DIR --vocabulary 4096
    python -m recipes.tokenize TEXT --into DIR --vocabulary 4096
"""

from __future__ import annotations

import hashlib
import itertools
import os
import shutil
import signal
import sys
import time
import uuid
from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from recipes import checkpoints, options, tokens
from recipes.distributed import UserError, leave

VALIDATION = 0.1  # of the text
LINES_AT_ONCE = 10_000
# Words with the space before them. GPT-2's expression takes marks (\p{M}) for no part of a word,
# and so cuts the words of Devanagari, Tamil or Thai at each vowel sign.
WORDS = r" ?[\p{L}\p{M}]+| ?\p{N}+| ?[^\s\p{L}\p{M}\p{N}]+|\s+(?!\S)|\s+"


def parser() -> options.BareParser:
    """Define the options."""
    parser = options.BareParser("tokenize", "Turn a text into the tokens that torch_lm trains on.")
    add = parser.add_argument
    add("text", metavar="TEXT", help="file in UTF-8")
    add("--into", required=True, metavar="DIR", help="new or empty folder for the tokens")
    text = "number of tokens, of which 256 are the bytes"
    add("--vocabulary", type=options.at_least(256), default=4096, help=text)
    return parser


@dataclass(frozen=True)
class Text:
    """A file of lines in UTF-8: the validation part begins at the position `split`."""

    path: Path
    size: int
    sha256: str
    split: int

    def lines(self, start: int, end: int) -> Iterator[str]:
        """Yield the lines between two positions, with their ends."""
        with self.path.open("rb") as file:
            file.seek(start)
            for line in file:
                yield line.decode()
                start += len(line)
                if start >= end:
                    return


def survey(path: Path) -> Text:
    """Read a text once, and find where it is split. Raises `UserError` for what is no text."""
    position = split = number = 0
    total, blank = hashlib.sha256(), True
    try:
        with path.open("rb") as file:
            wanted = os.fstat(file.fileno()).st_size * (1 - VALIDATION)
            for number, line in enumerate(file, start=1):
                blank = not decoded(path, number, line).strip() and blank
                # The first line from there on; the last one where all of them begin before.
                split = position if split < wanted else split
                position += len(line)
                total.update(line)
    except OSError as error:
        raise UserError(f"cannot read the text {path}: {error.strerror}") from error
    if blank:
        raise UserError(f"the text {path} is empty")
    if number == 1:
        raise UserError(
            f"the text {path} is one line: it cannot be split into a training and a validation part"
        )
    return Text(path, position, total.hexdigest(), split)


def decoded(path: Path, number: int, line: bytes) -> str:
    try:
        return line.decode()
    except UnicodeDecodeError as error:
        raise UserError(
            f"{path}, line {number}: not UTF-8: {error.reason}\n"
            f"Convert it: iconv -f ENCODING -t UTF-8 {path} > utf8.txt"
        ) from error


@contextmanager
def all_or_nothing(into: Path) -> Iterator[Path]:
    """Give a new folder, which becomes `into` at the end. Raises `UserError`."""
    target = into.resolve()
    part = target.with_name(f".{target.name}.{uuid.uuid4().hex}.part")
    try:
        if target.exists() and any(target.iterdir()):
            raise UserError(f"--into {into}: the folder is not empty. Give a new one")
        part.mkdir(parents=True)
        yield part
        part.rename(target)
    except OSError as error:
        raise UserError(f"cannot write the tokens into {into}: {error.strerror}") from error
    finally:
        shutil.rmtree(part, ignore_errors=True)


def train(text: Text, vocabulary: int) -> Any:
    """Return a tokenizer, trained on the training part. Raises `UserError`."""
    try:
        from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
    except ImportError as error:
        raise UserError(f"this Python has no tokenizers library: {error}") from error
    tokenizer = Tokenizer(models.BPE())
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    words = pre_tokenizers.Split(Regex(WORDS), "isolated")
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([words, byte_level])
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        min_frequency=2,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(text.lines(0, text.split), trainer)
    size = tokenizer.get_vocab_size()
    if size < vocabulary:
        raise UserError(
            f"--vocabulary {vocabulary}: the text yields {size} tokens only. Give --vocabulary "
            f"{size}, or a longer text"
        )
    return tokenizer


def encode(tokenizer: Any, lines: Iterator[str], path: Path, dtype: str) -> int:
    """Write the tokens of these lines; return how many there are."""
    count, kind = 0, np.dtype(dtype).newbyteorder("<")
    with path.open("wb") as file:
        while some := list(itertools.islice(lines, LINES_AT_ONCE)):
            for encoding in tokenizer.encode_batch_fast(some):
                count += len(encoding.ids)
                file.write(np.array(encoding.ids, kind).tobytes())
        file.flush()
        os.fsync(file.fileno())
    return count


def write(text: Text, vocabulary: int, folder: Path) -> dict[str, Any]:
    """Write all files into `folder`; return what meta.json says."""
    tokenizer = train(text, vocabulary)
    dtype = tokens.DTYPES[vocabulary > 1 << 16]
    parts = {"train": (0, text.split), "val": (text.split, text.size)}
    counts = {
        f"{name}_tokens": encode(tokenizer, text.lines(*part), folder / f"{name}.bin", dtype)
        for name, part in parts.items()
    }
    about = {"text": str(text.path), "bytes": text.size, "sha256": text.sha256}
    meta = {"vocabulary": vocabulary, "dtype": dtype, **about, **counts}
    checkpoints.write_atomically(folder / "tokenizer.json", tokenizer.to_str(pretty=True).encode())
    checkpoints.write_json(folder / "meta.json", meta)
    return meta


def run(args: Namespace) -> None:
    """Write the tokens, and say how many. Raises `UserError`."""
    if os.environ.get("WORLD_SIZE", "1") != "1":
        raise UserError("tokenize is one process: launch it without --nodes and --ntasks-per-node")
    began = time.perf_counter()
    with all_or_nothing(Path(args.into)) as folder:
        text = survey(Path(args.text))
        print(f"tokenize: {args.text}, {text.size} bytes", flush=True)
        meta = write(text, args.vocabulary, folder)
    seconds = time.perf_counter() - began
    count = meta["train_tokens"] + meta["val_tokens"]
    print(f"{count} tokens of {text.size / count:.2f} bytes in {args.into}, {seconds:.1f} s")
    print(f"next: runner launch --image IMAGE --nodes 2 --data {args.into} torch_lm")
    if output := os.environ.get("OUTPUT_DIR"):  # set by runner
        result, into = Path(output, "result.json"), str(Path(args.into).resolve())
        try:
            checkpoints.write_json(result, {**meta, "into": into, "seconds": seconds})
        except OSError as error:
            raise UserError(f"{result} could not be written: {error.strerror}") from error


def main() -> None:
    for number in (signal.SIGTERM, signal.SIGUSR1):  # what is half done is removed on the way out
        signal.signal(number, lambda number, frame: sys.exit(128 + number))
    try:
        run(parser().parse_args())
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        leave(error.exit_code)


if __name__ == "__main__":
    main()
