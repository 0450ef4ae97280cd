"""Random numbers: made in whole blocks of eight."""

from __future__ import annotations

from typing import Any

from workbench.runtime.reach.declare import FLOAT, WORD, reaches
from workbench.runtime.words.stream import CHUNK, KEY_WORDS

_BLOCK = 8


def _drawn(count: int) -> int:
    return FLOAT * _BLOCK * -(-min(count, CHUNK) // _BLOCK)


@reaches("stream", "words", "out")
def draw_truths(stream: Any, words: Any, out: Any, count: int, least: int) -> Any:
    return WORD * KEY_WORDS, _drawn(count), count


@reaches("stream", "words", "out")
def draw_uniform(stream: Any, words: Any, out: Any, count: int) -> Any:
    return WORD * KEY_WORDS, _drawn(count), FLOAT * count


@reaches("stream", "words", "out")
def draw_normal(stream: Any, words: Any, out: Any, count: int) -> Any:
    return WORD * KEY_WORDS, FLOAT * CHUNK, FLOAT * count
