"""Sums over processes; what lies in the window they share is at addresses that the state holds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from workbench.runtime.reach.declare import FLOAT, WORD, OutOfReach, Touched, reaches_of_words
from workbench.runtime.words.codes import CONTROL_WORDS
from workbench.runtime.words.window import (
    CONTROL,
    LABEL,
    LABEL_BYTES,
    LABEL_SIZE,
    LENGTH,
    OUTS,
    PIECES,
    ROOM,
    SEGMENTS,
    SLOT_BYTES,
    STATE,
    STEP,
    SUM_WORDS,
    TERMS,
)


@reaches_of_words
def hand_in(*words: Any) -> Sequence[Touched]:
    return _touched(words)


@reaches_of_words
def sum_processes(*words: Any) -> Sequence[Touched]:
    return _touched(words)


def _touched(words: Sequence[Any]) -> list[Touched]:
    arrays, terms = words[PIECES] + words[OUTS], words[TERMS]
    if len(words) != SUM_WORDS + arrays + 2 * terms or words[LABEL_SIZE] > LABEL_BYTES:
        raise OutOfReach(f"a sum over processes of {SUM_WORDS + arrays + 2 * terms} words, got {len(words)}")
    room, most = words[ROOM], max(words[SUM_WORDS + arrays + 1 :: 2], default=0) + 1
    if FLOAT * words[STEP] > room or room * max(words[PIECES], most) > SLOT_BYTES:
        raise OutOfReach("a sum over processes leaves its slots")
    fixed: list[Touched] = [
        (STATE, 0, WORD * SEGMENTS),
        (CONTROL, 0, WORD * CONTROL_WORDS),
        (LABEL, 0, words[LABEL_SIZE]),
    ]
    return fixed + [(SUM_WORDS + number, 0, FLOAT * words[LENGTH]) for number in range(arrays)]
