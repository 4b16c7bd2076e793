"""Synthetic reviews for the text classifier: cheap to make, and every label is certain.

"the food was not bad", label 1. Words tell nothing alone: what is said is turned round by a
negation in half of the reviews, and what comes before "but" does not count. So a classifier that
counts words is right in half of them, and one that reads in all of them.
"""

from __future__ import annotations

import numpy as np

TRAINING, TEST = 2048, 512  # reviews
SUBJECTS = ("food", "film", "room", "music", "staff", "story", "price", "view")
PRAISE = ("good", "great", "lovely", "superb", "pleasant", "perfect")
BLAME = ("bad", "poor", "awful", "dull", "horrid", "ugly")
NEGATIONS = ("not", "never", "hardly")


def sample(count: int, part: int) -> tuple[list[str], list[int]]:
    """Return `count` reviews and their labels, 0 or 1; always the same, another `part`, others."""
    generator = np.random.default_rng([3, part])
    texts, labels = [], []
    for _ in range(count):
        text, label = clause(generator)
        if generator.random() < 0.3:
            text = f"{clause(generator)[0]} but {text}"
        texts.append(text)
        labels.append(label)
    return texts, labels


def clause(generator: np.random.Generator) -> tuple[str, int]:
    """Return "the ... was ..." and whether that is praise."""
    praised, negated = generator.random(2) < 0.5
    subject, negation = generator.choice(SUBJECTS), generator.choice(NEGATIONS)
    said = generator.choice(PRAISE if praised else BLAME)
    middle = f"{negation} " if negated else ""
    return f"the {subject} was {middle}{said}", int(praised != negated)
