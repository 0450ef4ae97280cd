"""Flags: how they are set, what they take, that a wrong one changes nothing."""

import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

import workbench as wb
from workbench.config import FLAGS, FlagSpec, get_flag, override

NAN, SEED = "FLAGS_check_nan_inf", "FLAGS_paddle_seed_semantics"


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    with override():
        yield


@pytest.mark.parametrize("value", [True, 1, "1", "true", "On", " yes "])
def test_what_switches_on(value: Any) -> None:
    wb.set_flags({NAN: value})
    assert get_flag(NAN) is True and get_flag("check_nan_inf") is True


@pytest.mark.parametrize("value", [False, 0, "0", "False", "off", "no", ""])
def test_what_switches_off(value: Any) -> None:
    wb.set_flags({NAN: 1})
    wb.set_flags({NAN: value})
    assert wb.get_flags([NAN]) == {NAN: False}


@pytest.mark.parametrize("value", ["maybe", 2, None, [1]])
def test_anything_else_is_refused(value: Any) -> None:
    with pytest.raises(ValueError, match="FLAGS_check_nan_inf takes True or False"):
        wb.set_flags({NAN: value})


def test_all_flags_are_set_or_none() -> None:
    with pytest.raises(LookupError, match="Did you mean 'FLAGS_check_nan_inf'"):
        wb.set_flags({SEED: 1, "FLAGS_check_nan_ing": 1})
    with pytest.raises(ValueError, match="maybe"):
        wb.set_flags({SEED: 1, NAN: "maybe"})
    assert wb.get_flags([SEED, NAN]) == {SEED: False, NAN: False}


def test_for_the_length_of_a_with() -> None:
    with pytest.raises(ZeroDivisionError), override(check_nan_inf=True):
        assert get_flag(NAN)
        1 / 0  # noqa: B018
    assert not get_flag(NAN)


def test_every_flag_says_what_it_does_and_other_kinds_parse() -> None:
    assert all(flag.help and isinstance(flag.default, flag.kind) for flag in FLAGS.values())
    assert FlagSpec(int, 1, "").parse("n", "3") == 3 and FlagSpec(float, 1.0, "").parse("n", "0.5") == 0.5
    with pytest.raises(ValueError, match="n takes a whole number, got 'x'"):
        FlagSpec(int, 1, "").parse("n", "x")


@pytest.mark.parametrize(("value", "expected"), [("1", "True"), ("off", "False")])
def test_the_environment_is_read_at_import(value: str, expected: str) -> None:
    code = "from workbench.config import get_flag; print(get_flag('FLAGS_check_nan_inf'))"
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, NAN: value}, capture_output=True, text=True, timeout=60
    )
    assert done.stdout.strip() == expected, done.stderr
