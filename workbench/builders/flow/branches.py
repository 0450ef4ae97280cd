"""`static.nn.case` and `static.nn.switch_case`: several branches, made of `cond`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from workbench.builders.flow.control_flow import cond
from workbench.errors import InvalidArgument, InvalidType
from workbench.framework.program.guard import default_main_program
from workbench.framework.program.variable import Variable
from workbench.ops.tensor.creation import FILL_CONSTANT

Branch = Callable[[], Any]


def case(pred_fn_pairs: Sequence[tuple[Any, Branch]], default: Branch | None = None, name: str | None = None) -> Any:
    """Run the function of the first condition that holds, else the default one.

    Args:
        pred_fn_pairs: pairs of a bool tensor of one element and a function without arguments.
        default: the last function, if None.

    Returns:
        what the functions return, in one structure; see `cond`.

    Raises:
        InvalidType: no list of pairs, or no function. InvalidArgument: no pair, or results that differ.

    Example:
        >>> wb.enable_static()
        >>> x = static.data("x", [1])
        >>> y = static.nn.case([(x < 0.0, lambda: x * -1.0), (x > 1.0, lambda: x * 0.0 + 1.0)], default=lambda: x * 1.0)
        >>> static.Executor().run(feed={"x": np.array([-3.0], np.float32)}, fetch_list=[y])[0].tolist()
        [3.0]
    """
    if not isinstance(pred_fn_pairs, list | tuple):
        raise InvalidType(f"case takes a list of pairs, got {pred_fn_pairs!r}")
    pairs = [_pair(entry) for entry in pred_fn_pairs]
    if not pairs:
        raise InvalidArgument("case needs at least one pair of a condition and a function")
    if default is None:
        default = pairs.pop()[1]
    return _chosen(pairs, _function(default), name)


def _pair(entry: Any) -> tuple[Any, Branch]:
    if not isinstance(entry, list | tuple) or len(entry) != 2:
        raise InvalidType(f"case takes pairs of a condition and a function, got {entry!r}")
    return entry[0], _function(entry[1])


def _function(value: Any) -> Branch:
    if not callable(value):
        raise InvalidType(f"a branch is a function without arguments, got {value!r}")
    function: Branch = value
    return function


def _chosen(pairs: Sequence[tuple[Any, Branch]], default: Branch, name: str | None) -> Any:
    if not pairs:
        return default()
    (pred, function), *rest = pairs
    return cond(pred, function, lambda: _chosen(rest, default, None), name)


def switch_case(branch_index: Any, branch_fns: Any, default: Branch | None = None, name: str | None = None) -> Any:
    """Run the function of an index, else the default one.

    Args:
        branch_index: an integer tensor of one element. If the program just filled it with a number, that one function
            is called, nothing else.
        branch_fns: a list of functions without arguments, or of pairs of an int and one, or a dictionary.
        default: that of the largest index, if None.

    Returns:
        what the functions return, in one structure; see `cond`.

    Raises:
        InvalidType: no such functions. InvalidArgument: no function, an index that comes twice, results that differ.

    Example:
        >>> wb.enable_static()
        >>> index, x = static.data("index", [1], "int64"), wb.ones([1])
        >>> y = static.nn.switch_case(index, {1: lambda: x * 2.0, 5: lambda: x * 3.0}, default=lambda: x * 1.0)
        >>> static.Executor().run(feed={"index": np.array([5])}, fetch_list=[y])[0].tolist()
        [3.0]
    """
    branches = _numbered(branch_fns)
    if default is None:
        default = branches[max(branches)]
    known = _known(branch_index)
    if known is not None:  # the functions may return whatever they want
        return _function(branches.get(known, default))()
    pairs = [(branch_index == number, branches[number]) for number in sorted(branches)]
    return _chosen(pairs, _function(default), name)


def _known(index: Any) -> int | None:
    """The number that the program fills an index with, where it does nothing else to it."""
    if (
        not isinstance(index, Variable)
        or index.persistable
        or index.block is not default_main_program().current_block()
    ):
        return None
    writers = [op for op in index.block.ops if index.name in op.output_arg_names]
    filled = len(writers) == 1 and writers[0].type == FILL_CONSTANT.type
    return int(writers[0].attrs["value"]) if filled else None


def _numbered(given: Any) -> dict[int, Branch]:
    if isinstance(given, dict):
        entries = list(given.items())
    elif isinstance(given, list | tuple):
        entries = [tuple(f) if isinstance(f, list | tuple) else (i, f) for i, f in enumerate(given)]
    else:
        raise InvalidType(f"switch_case takes a list or a dictionary of functions, got {given!r}")
    functions: dict[int, Branch] = {}
    for entry in entries:
        if len(entry) != 2 or not isinstance(entry[0], int):
            raise InvalidType(f"switch_case takes pairs of an int and a function, got {entry!r}")
        if entry[0] in functions:
            raise InvalidArgument(f"switch_case: index {entry[0]} comes twice")
        functions[entry[0]] = _function(entry[1])
    if not functions:
        raise InvalidArgument("switch_case needs at least one function")
    return functions
