"""Where something was built: the user's file or cell, and line."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

import pytest

from tests.framework import toys
from tests.framework.models import data
from workbench.errors import InvalidArgument
from workbench.framework import site
from workbench.framework.program.guard import default_main_program
from workbench.framework.site import Site, add_formatter, caller, file_label, remove_formatter

CELL = "/tmp/ipykernel_77/123456.py"


def _label(file: str) -> str | None:
    return "cell In[3]" if file == CELL else None


@pytest.fixture
def cell_names() -> Iterator[None]:
    add_formatter(_label)
    yield
    remove_formatter(_label)


def run_cell(source: str, **names: object) -> None:
    exec(compile(source, CELL, "exec"), names)


def test_the_line_that_called() -> None:
    frame = inspect.currentframe()
    assert frame is not None
    assert caller() == Site(__file__, frame.f_lineno)


def test_an_op_and_its_variables_know_their_line() -> None:
    x = data("x", (2,))
    run_cell("\n\nout = toys.relu(toys.relu(x))\n\nlast = toys.relu(x)", toys=toys, x=x)
    assert [op.site for op in default_main_program().global_block().ops] == [
        Site(CELL, 3),
        Site(CELL, 3),
        Site(CELL, 5),
    ]


def test_an_error_names_the_users_line(cell_names: None) -> None:
    x, y = data("x", (2, 3)), data("y", (2, 3))
    with pytest.raises(InvalidArgument, match=r"at cell In\[3\], line 2$"):
        run_cell("x = x\ntoys.mul(x, y)", toys=toys, x=x, y=y)


def test_append_op_errors_name_the_users_line(cell_names: None) -> None:
    data("x", (2, 3))
    block = default_main_program().global_block()
    with pytest.raises(InvalidArgument, match=r"at cell In\[3\], line 4$"):
        run_cell("\n\n\nblock.append_op('toy_mul', inputs={'X': 'x', 'Y': 'x'})", block=block)


def test_files_keep_their_names_without_a_formatter() -> None:
    assert str(Site(CELL, 4)) == f"{CELL}, line 4"


def test_formatters_come_and_go() -> None:
    add_formatter(_label)
    add_formatter(_label)
    assert file_label(CELL) == "cell In[3]" and file_label("other.py") == "other.py"
    remove_formatter(_label)
    remove_formatter(_label)
    assert file_label(CELL) == CELL


def test_code_of_the_package_is_never_the_users() -> None:
    assert site.is_ours(site.__file__)
    assert not site.is_ours(__file__)
    assert not site.is_ours("<stdin>") and not site.is_ours(CELL)
