"""From what the user feeds to arrays, checked against the program (rules E-6 … E-9)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import combinations
from operator import methodcaller
from typing import Any, Protocol, runtime_checkable

import numpy as np

from workbench.errors import (
    InvalidArgument,
    InvalidForm,
    InvalidType,
    add_line,
    described,
    did_you_mean,
    one_of,
)
from workbench.executors.feeding.feed_plan import Fed
from workbench.framework.outside import is_from_outside
from workbench.framework.program.program import Program
from workbench.framework.program.variable import Variable
from workbench.framework.quiet import quietly
from workbench.framework.values.spec import shape_text
from workbench.runtime.storage.tensor import LoDTensor

Feed = Mapping[str, Any] | Sequence[Mapping[str, Any]] | None


@runtime_checkable
class GivesArray(Protocol):
    """A value that holds an array, as tensors of dynamic mode do."""

    def as_fed(self) -> np.ndarray:
        """The array itself, not a copy, for a step that reads it."""


def as_dict(feed: Feed, program: Program) -> Mapping[str, Any]:
    """The feed of a single device as one dict.

    Raises:
        InvalidType: neither dict nor list. InvalidForm: a list of more or less than one dict.
    """
    if feed is None:
        return {}
    if isinstance(feed, Mapping):
        return feed
    if not isinstance(feed, list | tuple):
        raise InvalidType(f"feed takes a dict of name to array, got {described(feed)}")
    if feed and not isinstance(feed[0], Mapping):
        raise InvalidType(f"feed takes a dict of name to array, got {described(feed)}{by_name(program, feed)}")
    if len(feed) != 1:
        raise InvalidForm(f"an Executor runs on one device and takes one dict of feeds, got a list of {len(feed)}")
    return feed[0]


def fed_names(feed: Feed | Fed) -> tuple[str, ...]:
    """What a feed of any form names."""
    if type(feed) is dict and {str}.issuperset(map(type, feed)):
        return tuple(sorted(feed))
    names = (k.name if isinstance(k, Variable) else k for arrays in _dicts(feed) for k in arrays)
    return tuple(sorted(set(names)))


def _dicts(feed: Feed | Fed) -> Iterable[Mapping[Any, Any]]:
    if isinstance(feed, Fed):
        return feed.sources
    if isinstance(feed, Mapping):
        return [feed]
    return [arrays for arrays in feed or () if isinstance(arrays, Mapping)]


def by_name(program: Program, feed: Sequence[Any]) -> str:
    """A hint where arrays came without their names: which names there are."""
    if not all(hasattr(value, "shape") for value in feed):
        return ""
    return f"; name the arrays: feed={{{', '.join(f'{name!r}: …' for name in _feed_names(program))}}}"


def check_feed(program: Program, feed: Feed) -> dict[str, Any]:
    """Arrays by name; every one checked against the variable it is for.

    Raises:
        InvalidType: a key or value of the wrong kind, or a wrong dtype.
        InvalidArgument: a wrong shape, or a name the program does not have (Paddle's plain executor only warns, E-6;
            a misspelt feed is never what was meant).
    """
    fed = [(fed_variable(program, name), value) for name, value in as_dict(feed, program).items()]
    arrays = {variable.name: as_array(variable, value) for variable, value in fed}
    try:
        for variable, _ in fed:
            check_value(variable, arrays[variable.name])
    except InvalidArgument as error:
        note_exchanged(error, program, arrays)
        raise
    return arrays


def fed_variable(program: Program, name: Any) -> Variable:
    """The variable a key of a feed stands for: its name, or the Variable itself.

    Raises:
        InvalidType: neither. InvalidArgument: the program has no such variable.
    """
    if isinstance(name, Variable):
        name = name.name
    if not isinstance(name, str):
        raise InvalidType(f"feed takes names (or Variables) as keys, got {name!r}")
    block = program.global_block()
    if not block.has_var(name):
        raise InvalidArgument(
            f"feed {name!r}: the program has no such variable.{did_you_mean(name, _feed_names(program))} "
            f"It takes {one_of(_feed_names(program))}"
        )
    return block.var(name)


def _feed_names(program: Program) -> list[str]:
    return [v.name for v in program.global_block().vars.values() if v.is_data]


def as_array(variable: Variable, value: Any) -> np.ndarray:
    """A fed value as an array: arrays as they are, tensors' values, numbers as one element (E-7)."""
    return conversion(variable, value)(value)


def conversion(variable: Variable, value: Any) -> Callable[[Any], np.ndarray]:
    """What makes arrays of the values of one type that are fed for a variable.

    Args:
        value: one of them.

    Raises:
        InvalidType: it is nothing an array is made of. What the function raises depends on the values.
    """
    if isinstance(value, np.ndarray):
        return as_it_is
    if isinstance(value, LoDTensor):
        return _of_tensor
    if isinstance(value, bool | int | float):
        return lambda number: _from_numbers(variable, [number] if variable.shape else number)
    if isinstance(value, list | tuple):
        return partial(_from_numbers, variable)
    if isinstance(value, GivesArray):
        return methodcaller("as_fed")
    if hasattr(value, "numpy") and not isinstance(value, Variable):
        return lambda tensor: np.asarray(tensor.numpy())
    if isinstance(value, np.generic):
        return lambda number: np.asarray(number).reshape(1 if variable.shape else ())
    raise InvalidType(f"feed {variable.name!r} takes an array, nested lists or a number, got {type(value).__name__}")


def as_it_is(array: np.ndarray) -> np.ndarray:
    """The conversion of arrays."""
    return array


def _of_tensor(tensor: LoDTensor) -> np.ndarray:
    return tensor.array if tensor.array is not None else tensor.numpy()


def _from_numbers(variable: Variable, value: Any) -> np.ndarray:
    """Numbers and nested lists have no dtype of their own, so they take the variable's, if it holds their values."""
    try:
        numbers = np.asarray(value)
    except ValueError as error:
        if is_from_outside(error):
            raise
        raise InvalidArgument(f"feed {variable.name!r}: the nested lists are ragged") from None
    if numbers.dtype.kind not in "biuf":
        raise InvalidType(f"feed {variable.name!r} takes real numbers, got {numbers.flat[0]!r}")
    cast = quietly(lambda: numbers.astype(variable.dtype.numpy))
    lost = np.isfinite(numbers) & ~np.isfinite(cast) if variable.dtype.is_float else cast != numbers
    if lost.any():
        raise InvalidArgument(
            f"feed {variable.name!r} has dtype {variable.dtype}, which does not hold {numbers[lost][0].item()!r}"
        )
    return cast


def check_value(variable: Variable, array: np.ndarray) -> None:
    """Refuse an array whose dtype or shape differs from the declared one (E-8)."""
    if variable.need_check_feed or variable.persistable:
        check_dtype(variable, array.dtype)
        check_shape(variable, array.shape)


def check_dtype(variable: Variable, dtype: Any, where: str = "") -> None:
    """Refuse a dtype other than the declared one; nothing is cast (E-8).

    Args:
        where: what the message adds to the variable's name, such as `" on cpu:1"`.

    Raises:
        InvalidType: the message offers `.astype`.
    """
    if dtype != variable.dtype.numpy:
        raise InvalidType(
            f"feed {variable.name!r} has the wrong dtype{where}\n  expected: {variable.dtype}\n  got:      {dtype}; "
            f'convert it with .astype("{variable.dtype}"){made_at(variable)}'
        )


def check_shape(variable: Variable, shape: tuple[int, ...], where: str = "", note: str = "") -> None:
    """Refuse a shape that the declared one does not allow (E-8).

    Args:
        where: what the message adds to the variable's name. note: what it adds to the shape.

    Raises:
        InvalidArgument: another rank, or a known dimension differs.
    """
    if not _has_shape(variable, shape):
        raise InvalidArgument(
            f"feed {variable.name!r} has the wrong shape{where}\n  expected: {shape_text(variable.shape)}\n"
            f"  got:      {shape_text(shape)}{note}{made_at(variable)}"
        )


def _has_shape(variable: Variable, shape: tuple[int, ...]) -> bool:
    declared = variable.shape
    return len(shape) == len(declared) and all(
        want < 0 or want == got for want, got in zip(declared, shape, strict=True)
    )


def note_exchanged(error: InvalidArgument, program: Program, arrays: Mapping[str, np.ndarray]) -> None:
    """Say so if two feeds fit neither's variable but each other's."""
    block = program.global_block()

    def fits(name: str, array: np.ndarray) -> bool:
        variable = block.var(name)
        return array.dtype == variable.dtype.numpy and _has_shape(variable, array.shape)

    for (a, for_a), (b, for_b) in combinations(arrays.items(), 2):
        if fits(a, for_b) and fits(b, for_a) and not (fits(a, for_a) and fits(b, for_b)):
            add_line(error, f"the arrays for {a!r} and {b!r} look exchanged")
            return


def made_at(variable: Variable) -> str:
    """A line that says where the variable was declared, for the end of a message."""
    return f"\n  declared at {variable.site}" if variable.site else ""
