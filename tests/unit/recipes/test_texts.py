"""Labelled texts: the forms of files that are read, and what is said of bad ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from recipes import texts
from recipes.distributed import UserError

from .. import sentences

TSV = "text\tlabel\ngood\t1\nbad\t0\n"


def folder(tmp_path: Path, **files: str | bytes) -> Path:
    """A data folder; `train_tsv="..."` is its file train.tsv."""
    for name, content in files.items():
        stem, _, suffix = name.rpartition("_")
        data = content if isinstance(content, bytes) else content.encode()
        (tmp_path / f"{stem}.{suffix}").write_bytes(data)
    return tmp_path


FORMS: list[dict[str, str | bytes]] = [
    {"train_tsv": TSV, "test_tsv": TSV},
    {"train_tsv": "\ufeff" + TSV.replace("\n", "\r\n"), "dev_tsv": TSV},
    {"train_csv": 'label,text\n1,"good, very"\n0,bad\n', "test_tsv": TSV},
    {
        "train_jsonl": '{"text": "good", "label": 1}\n\n{"label": 0, "text": "bad"}\n',
        "validation_csv": "text,label\nbad,0\n",
    },
    {
        "ratings_train_txt": 'id\tdocument\tlabel\n8\t아 "더빙.. 진짜\t0\n9\t너무재밓었다\t1\n',
        "ratings_test_txt": "id\tdocument\tlabel\n7\t\t1\n",  # NSMC has texts of nothing
    },
]


@pytest.mark.parametrize("files", FORMS)
def test_forms(tmp_path: Path, files: dict[str, str | bytes]) -> None:
    data = texts.load(str(folder(tmp_path, **files)))
    assert data.classes == 2
    assert sorted(data.y_train) == [0, 1]
    assert len(data.train) == 2
    assert len(data.test) == len(data.y_test) >= 1
    assert (
        data.describe() == f"{tmp_path}, 2 classes, 2 to learn from, {len(data.test)} to test with"
    )


def test_quotes_hold_commas_in_csv_and_mean_nothing_elsewhere(tmp_path: Path) -> None:
    for name, files, first in (
        ("csv", FORMS[2], "good, very"),
        ("txt", FORMS[4], '아 "더빙.. 진짜'),
    ):
        (tmp_path / name).mkdir()
        assert texts.load(str(folder(tmp_path / name, **files))).train[0] == first


BAD: list[dict[str, str | bytes]] = [
    {},
    {"train_tsv": TSV},
    {"train_tsv": "", "test_tsv": TSV},
    {"train_jsonl": "", "test_tsv": TSV},
    {"train_tsv": "text\tlabel\n", "test_tsv": TSV},
    {"train_tsv": "words\tlabel\ngood\t1\n", "test_tsv": TSV},
    {"train_tsv": "text\tclass\n", "test_tsv": TSV},
    {"train_tsv": TSV + "cut\n", "test_tsv": TSV},
    {"train_tsv": TSV + "x\t-1\n", "test_tsv": TSV},
    {"train_tsv": TSV + "x\tgood\n", "test_tsv": TSV},
    {"train_tsv": TSV, "test_tsv": TSV + "x\t2\n"},
    {"train_tsv": TSV + "x\t9000000\n", "test_tsv": TSV},
    {"train_tsv": "text\tlabel\nx\t0\n", "test_tsv": TSV},
    {"train_tsv": TSV.encode() + b"\xff\t1\n", "test_tsv": TSV},
    {"train_jsonl": "{\n", "test_tsv": TSV},
    {"train_jsonl": "[1]\n", "test_tsv": TSV},
    {"train_jsonl": '{"text": "x"}\n', "test_tsv": TSV},
    {"train_jsonl": '{"text": "x", "label": 1.5}\n', "test_tsv": TSV},
]


@pytest.mark.parametrize("files", BAD)
def test_bad_files_are_named(tmp_path: Path, files: dict[str, str | bytes]) -> None:
    with sentences.refuses(UserError):
        texts.load(str(folder(tmp_path, **files)))


def test_a_missing_folder_is_named() -> None:
    with sentences.refuses(UserError):
        texts.load("/nowhere")


def test_reviews_are_reproducible_and_their_parts_differ() -> None:
    once, again = texts.sample(50, part=1), texts.sample(50, part=1)
    assert once == again
    assert once[0] != texts.sample(50, part=2)[0]


def test_labels_follow_from_the_reviews_and_not_from_their_words() -> None:
    said, labels = texts.sample(2000, part=1)
    for text, label in zip(said, labels):
        words = text.split(" but ")[-1].split()
        assert ((words[-1] in texts.PRAISE) != (words[-2] in texts.NEGATIONS)) == bool(label)
    for word in (*texts.PRAISE, *texts.NEGATIONS):
        having = [label for text, label in zip(said, labels) if word in text.split()]
        assert 0.35 < sum(having) / len(having) < 0.65, word
