"""Notices below a cell: plain lines in a notebook, warnings elsewhere."""

from __future__ import annotations

import warnings
from types import SimpleNamespace

import pytest

from workbench.framework.notice import Notice, say, tell
from workbench.notebook.telling.notices import show_as_before, show_plainly


def notice_and_line() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        show = warnings.showwarning
        warnings.warn_explicit("a notice", Notice, "cell.py", 3)
        warnings.warn_explicit("a warning", UserWarning, "cell.py", 4)
        assert warnings.showwarning is show
    say("a line")


@pytest.mark.filterwarnings("ignore:a warning")
def test_in_a_notebook_they_are_plain(capsys: pytest.CaptureFixture[str]) -> None:
    show_plainly(SimpleNamespace(kernel=object()))
    try:
        notice_and_line()
    finally:
        show_as_before()
    out, err = capsys.readouterr()
    assert out == "Note: a notice\n  at cell.py, line 3\nNote: a line\n"
    assert "notice" not in err and "a line" not in err
    notice_and_line()
    out, err = capsys.readouterr()
    assert (out, err.splitlines()[-1]) == ("", "a line")


def test_a_terminal_goes_on_as_it_was(capsys: pytest.CaptureFixture[str]) -> None:
    show_plainly(SimpleNamespace())
    say("a line")
    assert capsys.readouterr() == ("", "a line\n")


def test_a_notice_points_at_the_users_line() -> None:
    with pytest.warns(Notice) as caught:
        tell("no effect")
    assert caught[0].filename == __file__
