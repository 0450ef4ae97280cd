"""Prints of a function of `to_static`: once, though it runs once more for each branch on a value that is first met."""

from __future__ import annotations

import io
import sys
import threading
from contextlib import redirect_stdout
from typing import Any

import pytest

import workbench as wb
from workbench.jit.branches.printing import HeldBack, printed_once
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


def test_lines_are_held_back_as_texts_are(capsys: pytest.CaptureFixture[str]) -> None:
    with printed_once():
        sys.stdout.writelines(["one\n", "two\n"])
        assert not capsys.readouterr().out
    assert capsys.readouterr().out == "one\ntwo\n"


@pytest.mark.parametrize("order", ["the first ends first", "the last ends first"])
def test_of_several_recordings_at_once_the_last_leaves_the_stream_as_it_was(order: str) -> None:
    stream = sys.stdout
    first, last = printed_once(), printed_once()
    first.__enter__()
    last.__enter__()
    for recording in (first, last) if order == "the first ends first" else (last, first):
        assert sys.stdout is not stream
        recording.__exit__(None, None, None)
    assert sys.stdout is stream


def test_a_stream_that_is_put_back_after_its_end_goes_with_the_next_recording(
    capsys: pytest.CaptureFixture[str],
) -> None:
    stream, elsewhere = sys.stdout, redirect_stdout(io.StringIO())
    with printed_once():
        elsewhere.__enter__()
    elsewhere.__exit__(None, None, None)
    print("later")
    assert capsys.readouterr().out == "later\n"
    with printed_once():
        pass
    assert sys.stdout is stream
