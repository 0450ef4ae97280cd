"""Every test can fail: it asserts something, itself or through what it calls, and looks at the answers it gets."""

import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.assertions import Suite, skips, suite


@pytest.fixture(scope="module", autouse=True)
def _let_go() -> Iterator[None]:
    """The syntax trees of all tests would slow every garbage collection of the tests that come after."""
    yield
    suite.cache_clear()


def test_every_test_asserts_something() -> None:
    assert [test.where for test in suite().tests if test not in suite().asserting] == []


def test_no_test_drops_a_verdict() -> None:
    assert [line for test in suite().tests for line in suite().dropped(test)] == []


HELPERS = """
    def same(a, b) -> bool:
        return a == b

    def require(a, b) -> None:
        for x in a:
            assert x == b

    def train(model) -> list[float]:
        return model.losses
"""


@pytest.fixture
def read(tmp_path: Path):
    def read(body: str) -> Suite:
        folder = tmp_path / "tests"
        folder.mkdir()
        (folder / "helpers.py").write_text(textwrap.dedent(HELPERS))
        lines = ["import pytest", "from tests.helpers import require, same, train", textwrap.dedent(body)]
        (folder / "test_it.py").write_text("\n".join(lines))
        return Suite(folder)

    return read


@pytest.mark.parametrize(
    ("body", "asserts", "drops"),
    [
        ("assert same(1, 2)", True, 0),
        ("same(1, 2)", False, 1),
        ("require([1], 2)", True, 0),
        ("train(None)", False, 0),
        ("with pytest.raises(ValueError): same(1, 2)", True, 0),
        ("for f in (1, 2): check(f)", True, 0),
        ("run_all(check)", True, 0),
        ("np.testing.assert_array_equal(1, 2)", True, 0),
        ("it.assert_called_once()", True, 0),
        ("print('assert')", False, 0),
    ],
)
def test_what_counts(read, body: str, asserts: bool, drops: int) -> None:
    suite = read(f"def check(f):\n    require(f, 1)\n\ndef test_it():\n    {body}\n")
    (test,) = suite.tests
    assert (test in suite.asserting) == asserts
    assert len(suite.dropped(test)) == drops


@pytest.mark.parametrize(
    ("lines", "skipped"),
    [
        ("def test_it(): pass", False),
        ("@pytest.mark.skip(reason='later')\ndef test_it(): pass", True),
        ("@pytest.mark.xfail\ndef test_it(): pass", True),
        ("def test_it():\n    pytest.skip('later')", True),
        ("@pytest.mark.slow\ndef test_it(): skipping()", False),
    ],
)
def test_what_is_skipped(read, lines: str, skipped: bool) -> None:
    (test,) = read(lines).tests
    assert skips(test.node) == skipped
