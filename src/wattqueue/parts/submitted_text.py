"""What users wrote into their submissions, as hashed n-grams, and a model of watts on them (extra ``ml``).

A job name, a script and a command line say which program runs on which input, also of a user who never ran a job
before. ``SubmittedText`` turns them into sparse vectors: the name as character 3-grams, scripts as words and pairs of
words, user and application as one word each. Words are hashed to a fixed width (scikit-learn's ``HashingVectorizer``),
so that new words need no new columns. A text that many jobs share is hashed once.

``TextPower`` is a ridge regression on them and on size, walltime and history. It estimates the logarithm of a job's
watts over its history prediction, so that the text corrects the history, and errors count relatively.

Hashed n-grams in place of sentence embeddings are WattQueue's own choice: they need no downloaded model.

Reference: texts of the submission as features, Antici et al., F-DATA, Scientific Data 12 (2025).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.linear_model import Ridge

from wattqueue.model.jobs import Floats, Labels
from wattqueue.model.known_jobs import KnownJobs
from wattqueue.parts.features import ASKED, TEXTS

WIDTH = 1 << 14
"""Columns that words are hashed to."""
LONGEST = 4_000
"""Characters of a text that are read: what a script runs stands near its begin, and input data may follow."""
WORD = re.compile(r"[a-z0-9_./+-]+")
SPREAD, LAST = ASKED + 1, ASKED + 2
"""Columns of the table of features, beside the history prediction in column ``ASKED``."""


class SubmittedText:
    """Vectors of the texts of n jobs; a block for each kind of text, a row for each distinct text of it."""

    def __init__(self, jobs: KnownJobs) -> None:
        blocks = [
            (jobs.app, name_grams),
            (jobs.app, lambda name: (f"app={name}",)),
            (jobs.user, lambda name: (f"user={name}",)),
            *((_coded(jobs.extra[name]), script_words) for name in TEXTS if name in jobs.extra),
        ]
        self._blocks = [(labels.codes, hashed(labels.names, words)) for labels, words in blocks]

    def rows(self, jobs: NDArray[np.int64]) -> Any:
        """Return the vectors of some jobs as a sparse matrix, all blocks added up. Shapes (k,) -> (k, WIDTH)."""
        # A missing text has code -1, which takes the last row of its block: an empty one.
        return sum(vectors[codes[jobs]] for codes, vectors in self._blocks)


def hashed(texts: Sequence[str], words: Callable[[str], Iterable[str]]) -> Any:
    """Return the vectors of texts, each of length 1, and an empty one behind them. Shape (len(texts) + 1, WIDTH)."""
    made = HashingVectorizer(analyzer=words, n_features=WIDTH, norm="l2")
    empty = sparse.csr_matrix((1, WIDTH))
    return sparse.vstack([made.transform(texts), empty], format="csr") if texts else empty


def name_grams(name: str) -> Iterator[str]:
    """Yield the character 3-grams of a name, its begin and end marked."""
    text = f" {name[:LONGEST].lower()} "
    return (f"name={text[k : k + 3]}" for k in range(len(text) - 2))


def script_words(text: str) -> list[str]:
    """Return the words of a script, and the pairs of neighbouring ones."""
    words = WORD.findall(text[:LONGEST].lower())
    return [*words, *(f"{a} {b}" for a, b in pairwise(words))]


def _coded(texts: NDArray[Any]) -> Labels:
    """Return a column of texts by code. Not ``Labels.of``, whose array of characters is as wide as the longest."""
    code: dict[str, int] = {}
    codes = [code.setdefault(text, len(code)) if (text := str(value or "")) else -1 for value in texts]
    return Labels(np.array(codes, np.int32), tuple(code))


class TextPower:
    """Ridge regression of log(watts / history) on texts, size, walltime and history.

    Args:
        texts: Vectors of all jobs; the last column of a table of features holds their rows.
        alpha: Strength of the ridge.
        fit_rows: The latest jobs that are used; old ones say less of what users run now.
    """

    def __init__(self, texts: SubmittedText, *, alpha: float = 1.0, fit_rows: int = 20_000) -> None:
        self.texts, self.alpha, self.fit_rows = texts, alpha, fit_rows

    def fit(self, X: Floats, y: Floats) -> TextPower:
        """Fit on a table of features (k, 8) and watts (k,), in the order in which jobs ended."""
        X, y = X[-self.fit_rows :], y[-self.fit_rows :]
        figures = submitted_figures(X)
        spread = figures.std(axis=0)
        self._middle, self._spread = figures.mean(axis=0), np.where(spread > 0.0, spread, 1.0)
        self._least, self._most = float(y.min()), float(y.max())
        goal = np.log(y / X[:, ASKED])
        self._offset = float(goal.mean())
        self._model = Ridge(alpha=self.alpha, fit_intercept=False, solver="sparse_cg", tol=1e-3)
        self._model.fit(self._table(X), goal - self._offset)
        return self

    def predict(self, X: Floats) -> Floats:
        """Return watts within the range seen. Shapes (k, 8) -> (k,)."""
        ratio = np.exp(np.clip(self._model.predict(self._table(X)) + self._offset, -5.0, 5.0))
        watts: Floats = np.clip(X[:, ASKED] * ratio, self._least, self._most)
        return watts

    def _table(self, X: Floats) -> Any:
        """Return all features as a sparse matrix. Shape (k, figures + WIDTH)."""
        figures = sparse.csr_matrix((submitted_figures(X) - self._middle) / self._spread)
        return sparse.hstack([figures, self.texts.rows(X[:, -1].astype(np.int64))], format="csr")


def submitted_figures(X: Floats) -> Floats:
    """Return processors, nodes, walltime and history as logarithms, spread and last job beside it. Shape (k, 6)."""
    history = X[:, ASKED]
    asked = np.log(np.maximum(X[:, 1:ASKED], 1e-3))
    return np.column_stack((asked, np.log(history), X[:, SPREAD] / history, np.log(X[:, LAST] / history)))
