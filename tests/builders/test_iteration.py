"""A Variable is iterated over slice by slice while its own program is built; elsewhere the error says what it is."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

import workbench as wb
from workbench import static
from workbench.errors import InvalidType


@pytest.fixture(autouse=True)
def static_mode() -> Iterator[None]:
    wb.enable_static()
    yield
    wb.disable_static()


ASKING: dict[str, Callable[[Any], Any]] = {
    "list": list, "the first": lambda x: next(iter(x)), "sum": sum, "stars": lambda x: [*x],
}  # fmt: skip


@pytest.mark.parametrize("is_static", [True, False])
@pytest.mark.parametrize("ask", ASKING.values(), ids=ASKING)
def test_outside_of_its_program_it_has_nothing_to_iterate_over(ask: Callable[[Any], Any], is_static: bool) -> None:
    main = static.Program()
    with static.program_guard(main):
        x = static.data("x", [2, 3])
        assert [one.shape for one in x] == [(3,), (3,)]
    operators = len(main.global_block().ops)
    if not is_static:
        wb.disable_static()
    with pytest.raises(TypeError, match=r"'x' stands for a value .*nothing to iterate over\n.*fetch_list"):
        ask(x)
    assert len(main.global_block().ops) == operators


def test_how_many_entries_there_are_has_to_be_known() -> None:
    with static.program_guard(static.Program()):
        x = static.data("x", [None, 3])
        with pytest.raises(InvalidType, match=r"cannot be iterated over: how many(.|\n)*while_loop(.|\n)*fetch_list"):
            list(x)
