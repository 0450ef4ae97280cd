"""`static.nn.cond` and `static.nn.while_loop`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from workbench.builders.flow.single_assignment import write_once
from workbench.builders.flow.structure import flatten, pack, same_structure
from workbench.errors import InvalidArgument, InvalidType, Unimplemented
from workbench.framework.names import generate
from workbench.framework.notice import tell_without_effect
from workbench.framework.op.infix import not_a_variable
from workbench.framework.op.record import find_op
from workbench.framework.op.recorder import current_recorder
from workbench.framework.program.block import Block
from workbench.framework.program.guard import default_main_program, default_startup_program
from workbench.framework.program.undo import unchanged_on_error
from workbench.framework.program.variable import Variable
from workbench.ops.flow.control_flow import cond_op, while_op
from workbench.ops.tensor.creation import FILL_CONSTANT

Function = Callable[..., Any]


def cond(
    pred: Variable,
    true_fn: Function | None = None,
    false_fn: Function | None = None,
    name: str | None = None,
    return_names: Sequence[str] | None = None,
) -> Any:
    """Run `true_fn()` or `false_fn()`, decided when the program runs.

    Args:
        pred: bool tensor of one element.
        true_fn, false_fn: functions without arguments; they return the same structure (a tensor, nested lists, tuples
            and dicts of tensors, or None) with equal dtypes and ranks. They may use any tensor from outside.
        name: layer name. return_names: has no effect, which is told.

    Returns:
        that structure; dimensions in which the two sides differ are known only when it runs.

    Raises:
        InvalidType: `pred` is not a tensor, or a function cannot be called. InvalidArgument: the structures differ.
        Unimplemented: a function writes a variable from outside.

    Example:
        >>> wb.enable_static()
        >>> x = static.data("x", [1])
        >>> y = static.nn.cond(x > 0, lambda: x * 2, lambda: x * -1)
        >>> static.Executor().run(feed={"x": np.array([-3.0], np.float32)}, fetch_list=[y])[0].tolist()
        [3.0]
    """
    for what, function in (("true_fn", true_fn), ("false_fn", false_fn)):
        if function is not None and not callable(function):
            raise InvalidType(f"cond takes a function as {what}, got {function!r}")
    tell_without_effect("cond", {"return_names": return_names is not None})
    recorder = current_recorder()
    if recorder.is_eager:
        chosen = true_fn if bool(pred) else false_fn
        return chosen() if chosen is not None else None
    with unchanged_on_error(default_main_program(), default_startup_program()):
        return recorder.on_variables(_cond, pred, true_fn, false_fn, name or generate("cond"))


def settled_cond(pred: Any, true_fn: Function, false_fn: Function, settle: Function) -> Any:
    """As `cond`, of two functions whose results are made alike when both are known.

    Args:
        settle: takes what the functions return, and returns two results of one structure; arrays without dimensions
            among them become tensors.
    """
    with unchanged_on_error(default_main_program(), default_startup_program()):
        return current_recorder().on_variables(_cond, pred, true_fn, false_fn, generate("cond"), settle)


def _cond(
    pred: Any, true_fn: Function | None, false_fn: Function | None, name: str, settle: Function | None = None
) -> Any:
    if not isinstance(pred, Variable):
        raise not_a_variable("cond takes a Variable as pred", pred)
    true_block, true_out = _traced(true_fn or _nothing, ())
    false_block, false_out = _traced(false_fn or _nothing, ())
    if settle is not None:
        true_out, false_out = settle(true_out, false_out)
    true_out, false_out = _ended(true_block, true_out), _ended(false_block, false_out)
    same_structure("what true_fn and false_fn return", true_out, false_out)
    true_outs, false_outs = flatten(true_out), flatten(false_out)
    if not true_outs or true_out is None:
        return true_out  # without outputs a functional cond has no effect
    captured = captured_by([true_block, false_block])
    outs, _ = cond_op(
        pred,
        captured or None,
        name=name,
        true_block=true_block,
        false_block=false_block,
        true_outs=[v.name for v in true_outs],
        false_outs=[v.name for v in false_outs],
        input_names=[v.name for v in captured],
    )
    return pack(true_out, outs)


def while_loop(
    cond: Function, body: Function, loop_vars: Sequence[Any], is_test: bool = False, name: str | None = None
) -> list[Any]:
    """Run `loop_vars = body(*loop_vars)` as long as `cond(*loop_vars)` holds.

    Ctrl-C ends it between two passes; compiled loops look at signals about every two milliseconds.

    Args:
        cond: returns a bool tensor of one element.
        body: returns as many values, in the same structure, dtypes and ranks, as `loop_vars`.
        loop_vars: tensors, or nested lists, tuples and dicts of them.
        is_test: has no effect, which is told. name: layer name.

    Returns:
        the loop variables after the last pass.

    Raises:
        InvalidType: a function cannot be called, or `loop_vars` is no list. InvalidArgument: `loop_vars` is empty,
            or `body` returns another structure. Unimplemented: a function writes a variable from outside.

    Example:
        >>> wb.enable_static()
        >>> i, x = wb.zeros([1], "int64"), wb.ones([1])
        >>> i, x = static.nn.while_loop(lambda i, x: i < 3, lambda i, x: [i + 1, x * 2], [i, x])
        >>> static.Executor().run(fetch_list=[x])[0].tolist()
        [8.0]
    """
    for what, function in (("cond", cond), ("body", body)):
        if not callable(function):
            raise InvalidType(f"while_loop takes a function as {what}, got {function!r}")
    if not isinstance(loop_vars, list | tuple):
        raise InvalidType(f"while_loop takes a list as loop_vars, got {loop_vars!r}")
    if not loop_vars:
        raise InvalidArgument("while_loop needs at least one loop variable")
    tell_without_effect("while_loop", {"is_test": is_test})
    recorder = current_recorder()
    if recorder.is_eager:
        return _loop_at_once(cond, body, list(loop_vars))
    with unchanged_on_error(default_main_program(), default_startup_program()):
        results: list[Any] = recorder.on_variables(_loop, cond, body, list(loop_vars), name or generate("while"))
        return results


def _loop_at_once(cond: Function, body: Function, values: list[Any]) -> list[Any]:
    while bool(cond(*values)):
        returned = body(*values)
        values = list(returned) if isinstance(returned, list | tuple) else [returned]
    return values


def _loop(cond: Function, body: Function, loop_vars: list[Any], name: str) -> list[Any]:
    xs = [_as_variable(v, "loop_vars") for v in flatten(loop_vars)]
    x_names = [generate(name + ".x") for _ in xs]
    cond_block, go_on = _traced(lambda *v: cond(*pack(loop_vars, list(v))), xs, x_names)
    if set(x_names).intersection(n for op in cond_block.ops for n in op.output_arg_names):
        cond_block.program.drop_blocks(cond_block.idx)
        return _loop_with_writing_condition(cond, body, loop_vars, xs, name)
    go_on = _ended(cond_block, go_on)
    if not isinstance(go_on, Variable):
        raise not_a_variable("the condition of while_loop must return a bool Variable", go_on)
    body_block, returned = traced_block(lambda *v: _as_list(body(*pack(loop_vars, list(v)))), xs, x_names)
    same_structure("loop_vars and what the body returns", list(loop_vars), returned)
    outs = flatten(returned)
    inner = [v for v in captured_by([cond_block, body_block]) if v.name not in x_names]
    results, _ = while_op(
        xs,
        inner or None,
        name=name,
        cond_block=cond_block,
        body_block=body_block,
        x_names=x_names,
        input_names=[v.name for v in inner],
        cond_out=go_on.name,
        body_outs=[v.name for v in outs],
    )
    return pack(list(loop_vars), results)


def _loop_with_writing_condition(
    cond: Function, body: Function, loop_vars: list[Any], xs: list[Variable], name: str
) -> list[Any]:
    """A loop whose condition writes loop variables: as in Paddle it is asked in front of the loop and at the end of
    each pass, so that the body and what comes behind the loop read what it has written."""
    copy = find_op("assign")
    first = pack(loop_vars, [copy(x) for x in xs])

    def one_pass(*values: Any) -> list[Any]:
        returned = _as_list(body(*values[:-1]))
        same_structure("loop_vars and what the body returns", list(loop_vars), returned)
        following = pack(returned, [copy(_as_variable(v, "the results")) for v in flatten(returned)])
        return [*following, cond(*following)]

    return _loop(lambda *values: values[-1], one_pass, [*first, cond(*first)], name)[:-1]


def _as_list(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else [value]


def _nothing() -> None:
    return None


def _as_variable(value: Any, what: str) -> Variable:
    if isinstance(value, bool | int | float):
        dtype = "bool" if isinstance(value, bool) else "int64" if isinstance(value, int) else "float32"
        return FILL_CONSTANT(shape=(1,), value=value, dtype=dtype)
    if isinstance(value, np.ndarray) and not value.ndim:
        return FILL_CONSTANT(shape=(), value=value.item(), dtype=value.dtype.name)
    if not isinstance(value, Variable):
        raise not_a_variable(f"control flow takes Variables in {what}", value)
    return value


def traced_block(function: Function, xs: Sequence[Variable], x_names: Sequence[str] = ()) -> tuple[Block, Any]:
    """Run `function` with a new block as the current one, on variables of the names given that are like `xs`; its
    results are values of that block."""
    block, result = _traced(function, xs, x_names)
    return block, _ended(block, result)


def _traced(function: Function, xs: Sequence[Variable], x_names: Sequence[str] = ()) -> tuple[Block, Any]:
    """A new block of what `function` does, and what it returns."""
    program = default_main_program()
    block = program.create_block()
    program.rollback()
    with program.block_guard(block):
        for variable, name in zip(xs, x_names, strict=True):
            inner = Variable(block, name, variable.shape, variable.dtype, stop_gradient=variable.stop_gradient)
            block.add_var(inner)
        block.inputs = list(x_names)
        return block, function(*(block.vars[n] for n in x_names))


def _ended(block: Block, result: Any) -> Any:
    """The results of a block as values of it."""
    with block.program.block_guard(block):
        if result is not None:
            result = pack(result, _own_outputs(block, flatten(result)))
        _refuse_outer_writes(block)
    names = write_once(block)
    if result is not None:
        result = pack(result, [block.vars[names.get(v.name, v.name)] for v in flatten(result)])
    return result


def _own_outputs(block: Block, leaves: list[Any]) -> list[Variable]:
    """Every result as a variable of the block that is written there, each only once."""
    seen: set[str] = set()
    outputs = []
    for leaf in leaves:
        variable = _as_variable(leaf, "the results")
        if variable.name in seen or variable.name not in block.vars or variable.name in block.inputs:
            variable = find_op("assign")(variable)
        seen.add(variable.name)
        outputs.append(variable)
    return outputs


def _refuse_outer_writes(block: Block) -> None:
    for op in block.ops:
        for name in op.output_arg_names:
            if name not in block.vars:
                raise Unimplemented(
                    f"op {op.type!r} writes {name!r}, which lives outside this branch or loop body; "
                    f"return the new value instead, or use the op outside\n  at {op.site}"
                )


def captured_by(blocks: Sequence[Block]) -> list[Variable]:
    """What blocks read from outside, in order of first use."""
    captured: dict[str, Variable] = {}
    for block in blocks:
        for op in block.ops:
            for name in op.input_arg_names:
                if name not in block.vars:
                    captured.setdefault(name, block.var_recursive(name))
    return list(captured.values())
