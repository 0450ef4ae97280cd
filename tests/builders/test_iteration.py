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
    with pytest.raises(TypeError, match=r"'x' is a placeholder .*nothing to iterate over\n.*fetch_list"):
        ask(x)
    assert len(main.global_block().ops) == operators


def test_how_many_entries_there_are_has_to_be_known() -> None:
    with static.program_guard(static.Program()):
        x = static.data("x", [None, 3])
        with pytest.raises(InvalidType, match=r"cannot be iterated over: how many(.|\n)*while_loop(.|\n)*fetch_list"):
            list(x)


def test_how_long_it_is_has_to_be_known() -> None:
    with static.program_guard(static.Program()):
        assert len(static.data("x", [2, None])) == 2
        with pytest.raises(InvalidType, match=r"'y' of shape \(-1, 3\) has no length(.|\n)*shape\(y\)(.|\n)*fetch"):
            len(static.data("y", [None, 3]))
        with pytest.raises(InvalidType, match=r"'z' has no length: it has no dimensions"):
            len(static.data("z", []))


@pytest.mark.parametrize("shape", [[2, 3], [None, 3], []])
def test_nothing_is_in_it_while_its_program_is_built(shape: list[int | None]) -> None:
    with static.program_guard(static.Program()):
        x = static.data("x", shape)
        for sought in (3, x):
            with pytest.raises(InvalidType, match=r"'x' has no answer(.|\n)*any\(x == value\)(.|\n)*fetch"):
                assert sought in x
        assert not x.block.ops
