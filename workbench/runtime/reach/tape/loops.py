"""Rows that walk other tapes, and what goes from pass to pass. What the other tapes touch, their own rows declare."""

from __future__ import annotations

from typing import Any

from workbench.runtime.reach.declare import FLOAT, WORD, reaches
from workbench.runtime.words.codes import STATE_WORDS
from workbench.runtime.words.loop import LOOP_WORDS, RUN_WORDS
from workbench.runtime.words.stream import STREAM_WORDS

_STATE, _LOOP = WORD * STATE_WORDS, WORD * LOOP_WORDS


@reaches("state")
def ask(state: Any, number: int) -> Any:
    return (_STATE,)


@reaches("stream")
def outside_loops(stream: Any) -> Any:
    return (WORD * STREAM_WORDS,)


@reaches("stream", "trip")
def inside_pass(stream: Any, trip: Any) -> Any:
    return WORD * STREAM_WORDS, WORD


@reaches("condition", "body", "loop")
def begin_loop(condition: Any, body: Any, loop: Any) -> Any:
    return _STATE, _STATE, _LOOP


@reaches("condition", "body", "goes_on", "loop")
def repeat(condition: Any, body: Any, goes_on: Any, loop: Any) -> Any:
    return _STATE, _STATE, 1, _LOOP


@reaches("inner", "loop")
def begin_inside(inner: Any, loop: Any) -> Any:
    return _LOOP, _LOOP


@reaches("body", "run", "back")
def begin_way_back(body: Any, run: Any, back: Any) -> Any:
    return _STATE, WORD * RUN_WORDS, _LOOP


@reaches("body", "loop", "back")
def go_back(body: Any, loop: Any, back: Any) -> Any:
    return _STATE, _LOOP, _LOOP


@reaches("source", "loop")
def keep(source: Any, count: int, loop: Any, offset: int) -> Any:
    return count, _LOOP


@reaches("out", "loop", "back")
def give_back(out: Any, count: int, loop: Any, offset: int, back: Any) -> Any:
    return count, _LOOP, _LOOP


@reaches("total", "part", "back")
def add_pass(total: Any, part: Any, count: int, back: Any) -> Any:
    return FLOAT * count, FLOAT * count, _LOOP


@reaches("source", "out")
def move_bytes(source: Any, out: Any, count: int) -> Any:
    return count, count


@reaches("out")
def clear_bytes(out: Any, count: int) -> Any:
    return (count,)


@reaches("first", "second", "is_made")
def begin_choice(first: Any, second: Any, is_made: Any) -> Any:
    return _STATE, _STATE, WORD


@reaches("is_first", "first", "second", "is_made")
def choose(is_first: Any, first: Any, second: Any, is_made: Any) -> Any:
    return 1, _STATE, _STATE, WORD


@reaches("is_made")
def require_made(is_made: Any) -> Any:
    return (WORD,)
