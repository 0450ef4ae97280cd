"""The checkpoints that stay in a folder: what they are called, and what a checkpoint tells of those beside it.

What a file tells may come from anywhere, and what stays in the folder is later replaced or deleted. So it names files
only, never their places, and only such names are taken as are given here.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from workbench.errors import InvalidArgument

SUFFIX = ".checkpoint"
LAST = "last"

_NUMBERED = r"(-v\d+)?" + re.escape(SUFFIX)  # files of other runs may have the name without a number
_BEST_NAME = re.compile(r"epoch-\d+-step-\d+" + _NUMBERED, re.ASCII)
_LAST_NAME = re.compile(LAST + _NUMBERED, re.ASCII)


def stem_of(epoch: int, step: int) -> str:
    """What one of the best is called, without a number and the suffix."""
    return f"epoch-{epoch}-step-{step}"


class Kept(NamedTuple):
    """One of the best checkpoints: what it scored, after which step, the name of its file."""

    score: float
    step: int
    name: str


class KeptFiles(NamedTuple):
    """What a run keeps, as its checkpoints tell it.

    Attributes:
        folder: absolute. monitor, mode: what `best` was judged by, see `ModelCheckpoint`.
        best: the best first. last: name of the newest one's file, None if there is none.
        epoch: passes at the last look. looked: steps whose values have been judged.
    """

    folder: str
    monitor: str | None
    mode: str
    best: tuple[Kept, ...]
    last: str | None
    epoch: int
    looked: int

    def as_document(self) -> dict[str, Any]:
        """For a file; `from_document` reads it."""
        return {**self._asdict(), "best": [list(kept) for kept in self.best]}

    @classmethod
    def from_document(cls, document: Any) -> KeptFiles:
        """What `as_document` gave.

        Raises:
            InvalidArgument: it did not give this, or a file in it has a name that no kept checkpoint has.
        """
        if not isinstance(document, Mapping) or set(document) != set(cls._fields):
            raise InvalidArgument(
                f"its record of kept checkpoints does not have the fields {', '.join(cls._fields)}: {document!r}"
            )
        for name, fits in _FITS.items():
            if not fits(document[name]):
                raise InvalidArgument(f"its record of kept checkpoints has {document[name]!r} as {name}")
        return cls(**{**document, "best": tuple(Kept(*one) for one in document["best"])})


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and value >= 0


def _is_best(value: Any) -> bool:
    if not isinstance(value, list) or len(value) != len(Kept._fields):
        return False
    score, step, name = value
    is_score = isinstance(score, int | float) and not math.isnan(score)
    return is_score and _is_count(step) and isinstance(name, str) and _BEST_NAME.fullmatch(name) is not None


_FITS = {
    "folder": lambda value: isinstance(value, str),
    "monitor": lambda value: value is None or isinstance(value, str),
    "mode": lambda value: value in ("min", "max"),
    "best": lambda value: isinstance(value, list) and all(map(_is_best, value)),
    "last": lambda value: value is None or (isinstance(value, str) and _LAST_NAME.fullmatch(value) is not None),
    "epoch": _is_count,
    "looked": _is_count,
}
