"""Chance, clocks and seeds inside of a recorded function: refused or told of, however code comes to them."""

from __future__ import annotations

import datetime
import os
import random
import secrets
import sys
import time
import uuid
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

import workbench as wb
from workbench.framework.notice import Notice

SYSTEM, TICK = random.SystemRandom(), time.time

# All of these give the same in two calls, or nearly always: comparing recordings would not find them.
CHANCE: dict[str, Callable[[], Any]] = {
    "uuid4": lambda: len(str(uuid.uuid4())),
    "uuid1": lambda: uuid.uuid1().version,
    "secrets": lambda: secrets.randbelow(1),
    "token": lambda: len(secrets.token_hex(2)),
    "SystemRandom": lambda: random.SystemRandom().randint(1, 1),
    "a SystemRandom there is": lambda: SYSTEM.randint(1, 1),
    "Random": lambda: random.Random().randint(1, 1),
    "default_rng": lambda: np.random.default_rng().integers(1),
    "Generator": lambda: np.random.Generator(np.random.PCG64()).integers(1),
    "urandom": lambda: len(os.urandom(1)),
    "by way of another function": lambda: next(map(partial(secrets.randbelow), [1])),
    "behind an except": lambda: swallowed(),
}
CLOCKS: dict[str, tuple[str, Callable[[], Any]]] = {
    "now": ("datetime.now", lambda: datetime.datetime.now().year),
    "in a zone": ("datetime.now", lambda: datetime.datetime.now(datetime.UTC).year),
    "today": ("date.today", lambda: datetime.date.today().year),
    "strftime": ("time.strftime", lambda: float(time.strftime("%Y"))),
    "under another name": ("time.time", lambda: TICK() > 0.0),
}
SEEDED: dict[str, Callable[[], Any]] = {
    "Random": lambda: random.Random(3).random(),
    "default_rng": lambda: np.random.default_rng(3).random(),
    "RandomState": lambda: np.random.RandomState(3).rand(),
}


def swallowed() -> float:
    try:
        return float(secrets.randbelow(1))
    except Exception:
        return 1.0


@pytest.mark.parametrize("record", [wb.jit.capture, wb.jit.to_static])
@pytest.mark.parametrize("kind", CHANCE)
def test_chance_is_refused_at_once(kind: str, record: Callable[..., Any]) -> None:
    step = record(lambda x: x * float(CHANCE[kind]()))
    with pytest.raises(wb.jit.NeedsValue, match=r"the system's source of chance(.|\n)*test_sources.py, line"):
        step(wb.ones([1]))
    assert sys.getprofile() is None


@pytest.mark.parametrize("kind", CLOCKS)
def test_clocks_are_told_of_once(kind: str) -> None:
    name, read = CLOCKS[kind]
    step, x = wb.jit.capture(lambda x: x * read()), wb.ones([1])
    with pytest.warns(Notice, match=rf"{name}, which gives something else(.|\n)*test_sources.py, line") as notices:
        assert [step(x).item() for _ in range(5)]
    assert len(notices) == 1


@pytest.mark.parametrize("kind", SEEDED)
def test_what_begins_with_a_seed_is_the_same_in_every_call(kind: str) -> None:
    step, x = wb.jit.capture(lambda x: x * SEEDED[kind]()), wb.ones([1])
    with warnings.catch_warnings():
        warnings.simplefilter("error", Notice)
        assert {step(x).item() for _ in range(5)} == {np.float32(SEEDED[kind]()).item()}


def test_a_seed_inside_is_refused() -> None:
    def step(x: Any) -> Any:
        wb.seed(3)
        return x + wb.rand([1])

    with pytest.raises(wb.jit.NeedsValue, match=r"paddle.seed\(\) is called(.|\n)*test_sources.py, line"):
        wb.jit.capture(step)(wb.ones([1]))


def test_variables_of_the_system_are_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    step, x = wb.jit.capture(lambda x: x * float(os.getenv("WORKBENCH_OF_A_TEST", "2.0"))), wb.ones([1])
    entry = wb.jit.capture(lambda x: x * float(os.environ.get("WORKBENCH_OF_A_TEST", "2.0")))
    assert [step(x).item(), step(x).item(), entry(x).item(), entry(x).item()] == [2.0] * 4
    monkeypatch.setenv("WORKBENCH_OF_A_TEST", "3.0")
    with pytest.warns(Notice, match="os.environ"):
        assert [step(x).item(), entry(x).item()] == [3.0, 3.0]


def test_who_is_profiled_goes_on_being_profiled() -> None:
    def profile(frame: Any, event: str, given: Any) -> None:
        pass

    sys.setprofile(profile)
    try:
        wb.jit.capture(lambda x: x * 2.0)(wb.ones([1]))
        assert sys.getprofile() is profile
    finally:
        sys.setprofile(None)
