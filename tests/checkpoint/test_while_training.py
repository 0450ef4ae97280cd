"""Saving and loading while another thread trains in the scope: whole steps only."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.autodiff.small import Built
from workbench import static

NAMES = [f"v{i}" for i in range(8)]


@pytest.fixture
def program() -> Any:
    """Adds 1 to eight variables, large enough for a commit to take a while."""
    with Built() as p:
        for name in NAMES:
            v = p.main.global_block().create_var(name, [40_000], "int64", persistable=True)
            p.main.global_block().append_op("increment", {"X": v}, {"Out": v}, {"step": 1.0})
    return p.main


@contextmanager
def training(program: Any, scope: static.Scope) -> Iterator[None]:
    done, errors = threading.Event(), []

    def work() -> None:
        try:
            while not done.is_set():
                static.Executor().run(program, scope=scope)
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join(20)
    assert not errors and not thread.is_alive()


def filled(value: int) -> static.Scope:
    scope = static.Scope()
    for name in NAMES:
        scope.var(name).set(np.full(40_000, value))
    return scope


def test_what_is_saved_is_one_step(program: Any, tmp_path: Path) -> None:
    scope, seen = filled(0), set()
    with static.scope_guard(scope), training(program, scope):
        for i in range(25):
            if i % 2:
                static.save_persistables(static.Executor(), tmp_path, program, filename="f")
                loaded = wb.load(tmp_path / "f")
            else:
                static.save(program, tmp_path / "m")
                loaded = wb.load(tmp_path / "m.wbparams")
            values = {int(n) for name in NAMES for n in np.unique(loaded[name])}
            assert len(values) == 1, f"steps {sorted(values)} in one file"
            seen |= values
    assert len(seen) > 5, "nothing was trained meanwhile"


def test_what_is_loaded_stays_together(program: Any, tmp_path: Path) -> None:
    with static.scope_guard(filled(1_000_000)):
        static.save_persistables(static.Executor(), tmp_path, program)
    scope = filled(0)
    with static.scope_guard(scope), training(program, scope):
        for _ in range(25):
            static.load_persistables(static.Executor(), tmp_path, program)
            with scope.in_use():
                values = {int(n) for name in NAMES for n in np.unique(scope.find_var(name).get_tensor().array)}
            assert len(values) == 1 and min(values) >= 1_000_000
