"""Least squares without negative weights, for the few terms of a law. Pure.

`rows` are the terms of each observation over what was observed: the sum of the squares of
1 - row . weights is that of the relative errors. numpy and scipy come with the extra `scale`, and
only who has results waits for them.
"""

from __future__ import annotations

from collections.abc import Sequence

Vector = list[float]
Matrix = list[Vector]


def non_negative(rows: Sequence[Vector]) -> tuple[list[int], Vector]:
    """Return which terms are used, and all weights: the best ones without a negative one.

    Lawson, Hanson 1974, chapter 23, by scipy. The units of the terms do not matter.
    """
    import numpy as np
    from scipy.optimize import nnls

    table = np.array(rows)
    scale = np.linalg.norm(table, axis=0)
    weights = nnls(table / scale, np.ones(len(table)))[0] / scale
    return [i for i, weight in enumerate(weights) if weight > 0], weights.tolist()


def covariance(rows: Sequence[Vector], used: list[int], weights: Vector) -> Matrix | None:
    """Return the covariance of the weights in use; None when no run remains to tell the error."""
    import numpy as np

    table, chosen = np.array(rows)[:, used], np.array(weights)[used]
    freedom = len(rows) - len(used)
    if freedom < 1 or np.linalg.matrix_rank(table) < len(used):
        return None
    variance = np.sum((1 - table @ chosen) ** 2) / freedom
    found: Matrix = (np.linalg.inv(table.T @ table) * variance).tolist()
    return found
