"""Prints of a function of `to_static`: once, though it runs once more for each branch on a value that is first met."""

from __future__ import annotations

import sys
import threading
from typing import Any

import pytest

import workbench as wb
from workbench.jit.branches.printing import HeldBack
from workbench.jit.values.captured_tensor import NeedsValue

x = wb.to_tensor([1.0, 2.0])


def test_what_is_printed_appears_once(capsys: pytest.CaptureFixture[str]) -> None:
    @wb.jit.to_static
    def f(x: Any) -> Any:
        print("begun")
        if x.sum() > 0:
            x = x * 2.0
        else:
            x = x * 3.0
        print("between", end=", ")
        while x.sum() < 20:
            x = x * 2.0
        print("done")
        return x

    stream = sys.stdout
    assert f(x).tolist() == [8.0, 16.0]
    assert capsys.readouterr().out == "begun\nbetween, done\n"
    assert f(x * 2.0).tolist() == [8.0, 16.0]
    assert sys.stdout is stream and not capsys.readouterr().out


def test_what_was_printed_before_an_error_appears(capsys: pytest.CaptureFixture[str]) -> None:
    @wb.jit.to_static
    def f(x: Any) -> Any:
        print("before")
        return x * float(x.sum())

    with pytest.raises(NeedsValue):
        f(x)
    assert capsys.readouterr().out == "before\n"


def test_a_debugger_is_seen_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    seen: list[str] = []

    @wb.jit.to_static
    def f(x: Any) -> Any:
        print("(Pdb)", end=" ", flush=True)
        seen.append(capsys.readouterr().out)
        return x * 2.0

    with pytest.raises(NeedsValue, match="changes"):
        f(x)
    assert seen == ["(Pdb) "]


def test_other_threads_are_not_held_back(capsys: pytest.CaptureFixture[str]) -> None:
    held = HeldBack(sys.stdout)
    held.write("mine ")
    other = threading.Thread(target=held.write, args=("theirs ",))
    other.start()
    other.join(30)
    assert capsys.readouterr().out == "theirs "
    held.let_out()
    held.write("later")
    assert capsys.readouterr().out == "mine later"
    assert held.encoding == sys.stdout.encoding
