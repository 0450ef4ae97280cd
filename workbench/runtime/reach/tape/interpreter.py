"""Flags between threads, and what else is no arithmetic."""

from __future__ import annotations

from typing import Any

from workbench.runtime.reach.declare import FLOAT, WORD, reaches, reaches_of_words, span
from workbench.runtime.words.codes import BLOCK_TAKEN, CONTROL_WORDS


@reaches("flag", "control")
def wait(flag: Any, control: Any) -> Any:
    return WORD, WORD * CONTROL_WORDS


@reaches("flag", "control")
def signal(flag: Any, control: Any) -> Any:
    return WORD, WORD * CONTROL_WORDS


@reaches_of_words
def block(flag: Any, control: Any) -> Any:
    """The row inside it is looked at like any other."""
    return (0, 0, WORD * (BLOCK_TAKEN + 1)), (1, 0, WORD * CONTROL_WORDS)


@reaches_of_words
def unless(flag: Any, control: Any) -> Any:
    """The row inside it is looked at like any other."""
    return (0, 0, WORD), (1, 0, WORD * CONTROL_WORDS)


@reaches()
def look_up() -> Any:
    return ()


@reaches("number", "others")
def require_equal(number: Any, others: Any, count: int, stride: int) -> Any:
    return FLOAT, span((count, FLOAT * stride))
