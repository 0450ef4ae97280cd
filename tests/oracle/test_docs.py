"""The oracle itself, on a small package that stands for Paddle's wheel."""

import sys
from pathlib import Path
from typing import Any

import pytest

from tests.oracle import docs, operands, ops
from tests.oracle.listing import code_blocks
from tests.oracle.names import used_names
from tests.oracle.numbers import same_numbers
from tests.oracle.table import Outcome, reason
from tests.oracle.worker import run

PACKAGE = '''
"""A package with two functions and a class."""
import random as _random
import sys as _sys

import numpy as _numpy

from wheel import nn

__version__ = "0"
__all__ = ["seed", "ones", "Pair", "noise", "broken"]
_generator = _random.Random(0)


def seed(value):
    _generator.seed(value)


def ones(shape):
    """Ones.

    Examples:
        .. code-block:: python
            :name: ones

            >>> import wheel
            >>> wheel.ones([2]).shape[0] + 1.5
            3.5

        .. code-block:: python

            >>> import wheel
            >>> for size in (1, 2):
            ...     print(wheel.ones([size]).numpy().sum())
    """
    class Ones:
        def __init__(self):
            self.shape = shape

        def numpy(self):
            return _numpy.ones(shape)

    return Ones()


def noise():
    """Noise.

    .. code-block:: python

        >>> import wheel
        >>> wheel.seed(3)
        >>> print(wheel.noise())
    """
    return _generator.random()


def broken():
    """Needs what is not there.

    .. code-block:: python

        >>> import wheel
        >>> wheel.broken(1)
    """


class Pair:
    def first(self):
        """The first.

        .. code-block:: python

            >>> import wheel
            >>> print(wheel.Pair().first())
        """
        return 1
'''
NN = """
from wheel.nn import functional

__all__ = []
"""
FUNCTIONAL = '''
__all__ = ["relu", "hang"]


def relu(x):
    """Rectifies.

    .. code-block:: python

        >>> import wheel
        >>> import wheel.nn.functional as F
        >>> print(F.relu(wheel.ones([3])).shape)
    """
    return x


def hang():
    """Never ends.

    .. code-block:: python

        >>> while True:
        ...     pass
    """
'''


@pytest.fixture
def wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a package `wheel`, which every Python started from here finds."""
    functional = tmp_path / "wheel" / "nn" / "functional.py"
    functional.parent.mkdir(parents=True)
    (tmp_path / "wheel" / "__init__.py").write_text(PACKAGE)
    (functional.parent / "__init__.py").write_text(NN)
    functional.write_text(FUNCTIONAL)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    return tmp_path


@pytest.mark.processes
def test_a_table_of_a_wheel(wheel: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(docs, "TIMEOUT", 3.0)
    cache = wheel / "cache"
    arguments = ["--paddle", sys.executable, "--package", "wheel", "--cache", str(cache)]
    assert docs.main(arguments) == 0
    printed = capsys.readouterr().out
    rows = {line.split()[0]: line.split()[1:] for line in printed.splitlines() if line.startswith(("wheel", "all"))}
    # examples, run, %, with numbers, the same, random, programs, with text, the same
    # what hangs or breaks under the wheel is left out
    assert rows["wheel"] == ["4", "2", "50", "3", "2", "0", "0", "3", "2"]
    assert rows["wheel.nn.functional"] == ["1", "1", "100", "1", "1", "0", "0", "1", "1"]
    assert rows["all"][:2] == ["5", "3"]
    assert "1  missing paddle.Pair   (wheel.Pair.first)" in printed
    assert "1  wheel.noise" in printed
    (kept,) = cache.glob("docs-wheel-0.json")
    kept_text = kept.read_text()
    assert docs.main([*arguments, "--only", "wheel.nn"]) == 0
    assert kept.read_text() == kept_text
    assert docs.main([*arguments, "--only", "wheel.nothing"]) == 2


def outcome(expected: str, printed: str, steady: bool = True, source: str = "") -> Outcome:
    return Outcome("wheel", "wheel.f", source, expected, steady, None, printed)


def test_what_differs_is_random_a_description_or_a_deviation() -> None:
    kinds = {
        "random": outcome("0.5", "0.7", steady=False),
        "describes": outcome("var x : LOD_TENSOR.shape(2,)", "Variable(x: float32[3])"),
        "deviates": outcome("0.5", "0.7", source=">>> # doctest: +REQUIRES(env:GPU)\n>>> f()\n0.8\n"),
        "as_documented": outcome("0.5", "0.7", source=">>> # doctest: +REQUIRES(env:GPU)\n>>> f()\n0.7\n"),
        "same": outcome("0.5", "0.50000001"),
    }
    for name, one in kinds.items():
        assert [kind for kind in kinds if getattr(one, kind)] == [name]


def test_numbers_that_two_seeds_share_by_chance_are_told_by_others() -> None:
    asked: list[int] = []

    def ask(requests: list[dict[str, Any]]) -> list[dict[str, Any]]:
        asked.extend(request["seed"] for request in requests)
        return [
            {"printed": "0.5" if request["source"] == "steady" or request["seed"] < 7 else "1.5"}
            for request in requests
        ]

    outcomes = [outcome("0.5", "0.7"), outcome("0.5", "0.5"), outcome("0.5", "0.7")]
    running = [({"source": source}, {}) for source in ("coarse", "steady", "steady")]
    told = docs._told_by_more_seeds(outcomes, running, ask)
    assert [one.random for one in told] == [True, False, False] and [one.deviates for one in told] == [
        False,
        False,
        True,
    ]
    assert set(asked) == set(docs._MORE_SEEDS) and len(asked) == 2 * len(docs._MORE_SEEDS)


@pytest.mark.parametrize(
    ("printed", "expected", "same"),
    [
        ("1.00001 Tensor(shape=[2])", "1. [2]", True),
        ("1.001", "1.", False),
        ("nan -inf 2e3", "nan -inf 2000", True),
        ("nan", "1", False),
        ("True", "1", False),
        ("1 2", "1", False),
        ("float32 w_0 0x7f12 3", "3", True),
    ],
)
def test_numbers_are_compared_to_rounding(printed: str, expected: str, same: bool) -> None:
    assert same_numbers(printed, expected) is same


def test_an_example_shows_what_a_prompt_shows() -> None:
    ran = run(
        ">>> x = 2\n>>> x + 1\n3\n>>> None\n>>> for i in range(2):\n...     print(i)\n>>> missing\n>>> print(4)\n"
    )
    assert ran == {"error": "NameError: name 'missing' is not defined", "printed": "3\n0\n1\n"}


def test_an_expected_error_is_no_failure() -> None:
    source = ">>> int('x')\nTraceback (most recent call last):\nValueError: no\n>>> 5\n5\n"
    assert run(source) == {"error": None, "printed": "ValueError\n5\n"}


def test_prompts_on_every_line() -> None:
    assert run(">>> def f():\n>>>     return 3\n>>> print(f())\n") == {"error": None, "printed": "3\n"}


def test_blocks_end_with_their_margin() -> None:
    blocks = (
        ".. code-block:: python\n    :name: a\n\n    >>> 1\n\n    >>> 2\n\nmore\n.. code-block:: text\n\n    >>> 3\n"
    )
    assert code_blocks(blocks) == [">>> 1\n\n>>> 2\n"]


def test_names_are_followed_through_imports() -> None:
    source = ">>> from paddle.nn import Linear as L\n>>> import paddle.nn.functional as F\n>>> F.relu(L(1).weight)\n"
    assert used_names(source, "paddle") == {"paddle.nn.Linear", "paddle.nn.functional", "paddle.nn.functional.relu"}


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        ("AttributeError: module 'workbench' has no attribute 'addmm'. Did you mean 'add'?", "missing paddle.addmm"),
        ("AttributeError: workbench.nn.Linear is not available yet: x", "missing paddle.nn.Linear"),
        ("ImportError: cannot import name 'Linear' from 'paddle.nn' (x)", "missing paddle.nn.Linear"),
        ("ModuleNotFoundError: No module named 'paddle.vision.models'", "missing paddle.vision.models"),
        ("AttributeError: 'Tensor' object has no attribute 'backward'", "missing Tensor.backward"),
        ("ValueError: bad", "ValueError: bad"),
    ],
)
def test_reasons_name_what_is_missing(error: str, expected: str) -> None:
    assert reason(error) == expected


FUNCTIONS = '''
import workbench
from workbench import grad, tanh, to_tensor

__version__ = "0"
__all__ = ["tanh", "abs", "exp", "log", "unheard"]


def abs(x, name=None):
    return workbench.abs(x) * 2.0


def exp(x, name=None):
    """The values of exp, but no gradient."""
    return workbench.exp(x.detach()) + x * 0.0


def log(value):
    return workbench.log(value)


def unheard(x):
    return x
'''


@pytest.mark.processes
def test_functions_are_compared_by_values_and_gradients(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "wheel").mkdir()
    (tmp_path / "wheel" / "__init__.py").write_text(FUNCTIONS)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(operands, "TRIED", 2)
    arguments = ["--paddle", sys.executable, "--package", "wheel", "--cache", str(tmp_path), "--calls", "1"]
    assert ops.main(arguments) == 0
    lines = capsys.readouterr().out.splitlines()
    told = {line.split(":")[0].split("(")[0]: line.rpartition(": ")[2] for line in lines}
    assert told["wheel.unheard"] == "missing" and told["wheel.log"] == "has no parameter value"
    assert told["wheel.abs"] == "other values" and told["wheel.exp"] == "other gradients" and "wheel.tanh" not in told
    assert lines[-1] == (
        "5 functions, 3 with the same parameters here, 3 tried; "
        "3 calls, 2 with the same values, 1 with the same gradients"
    )
