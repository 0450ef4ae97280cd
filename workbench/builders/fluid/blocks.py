"""`fluid.layers.While` and `Switch`: control flow of Paddle 1.x, whose blocks write variables from outside.

Blocks of a program here are functions: they write nothing outside, and no name twice. What a block writes outside
has names of its own there, one for each write; it is handed out as a result and written outside by an `assign` behind.
Blocks are handed copies of what is then overwritten: gradients need the values from before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from workbench.builders.flow.control_flow import captured_by, traced_block
from workbench.builders.flow.single_assignment import add_like, write_once
from workbench.builders.layer import require_static
from workbench.errors import InvalidArgument, PreconditionNotMet
from workbench.framework.names import generate
from workbench.framework.notice import tell_without_effect
from workbench.framework.op.infix import not_a_variable
from workbench.framework.program.block import Block
from workbench.framework.program.guard import default_main_program, default_startup_program
from workbench.framework.program.undo import unchanged_on_error
from workbench.framework.program.variable import Variable
from workbench.framework.values.spec import shape_text
from workbench.ops.flow.control_flow import cond_op, while_op
from workbench.ops.math.compare import logical_and, logical_not
from workbench.ops.tensor.assign import assign


class While:
    """A loop: what is built in its block runs again and again, as long as a variable is true.

    Args:
        cond: a bool variable of one element, which the block has to write.
        is_test: has no effect, which is told. name: layer name.

    Raises:
        InvalidType: `cond` is no variable. InvalidArgument: it is not one bool; or the block never writes it.

    Example:
        >>> import workbench.fluid as fluid
        >>> i, limit = (fluid.layers.fill_constant([1], "int64", n) for n in (0, 3))
        >>> total, one = fluid.layers.zeros([2], "float32"), fluid.layers.ones([2], "float32")
        >>> go_on = fluid.layers.less_than(i, limit)
        >>> with fluid.layers.While(go_on).block():
        ...     total = fluid.layers.assign(total + one, total)
        ...     i = fluid.layers.increment(i)
        ...     go_on = fluid.layers.less_than(i, limit, cond=go_on)
        >>> fluid.Executor().run(fetch_list=[total])[0].tolist()
        [3.0, 3.0]
    """

    def __init__(self, cond: Variable, is_test: bool = False, name: str | None = None) -> None:
        require_static("fluid.layers.While")
        _require_bool("While", cond)
        tell_without_effect("While", {"is_test": is_test})
        self._cond, self._name = cond, name or generate("while")

    @contextmanager
    def block(self) -> Iterator[None]:
        """The `with` body is the loop's."""
        with _body(self._complete):
            yield

    def _complete(self, body: Block) -> None:
        written = _written_outside(body)
        own_names = [variable.name for variable in written]
        if self._cond.name not in own_names:
            raise InvalidArgument(
                f"the block of While never writes its condition {self._cond.name!r}, so it would never end; "
                "give less_than and its like cond=, or use assign(value, output=)"
            )
        x_names = [generate(self._name + ".x") for _ in written]
        names = dict(zip(own_names, x_names, strict=True))
        for variable, name in zip(written, x_names, strict=True):
            add_like(body, variable, name)
        body.inputs = list(x_names)
        last = write_once(body, names)
        cond_block, go_on = traced_block(lambda *xs: assign(xs[own_names.index(self._cond.name)]), written, x_names)
        captured = [v for v in captured_by([cond_block, body]) if v.name not in x_names]
        results, _ = while_op(
            [assign(variable) for variable in written],
            captured or None,
            name=self._name,
            cond_block=cond_block,
            body_block=body,
            x_names=x_names,
            input_names=[v.name for v in captured],
            cond_out=go_on.name,
            body_outs=[last[name] for name in own_names],
        )
        for result, variable in zip(results, written, strict=True):
            assign(result, variable)


class Switch:
    """The block of the first case that is true, else the default one; cases write variables from outside.

    Raises:
        PreconditionNotMet: a case outside the `with` body of the switch, a default without or before cases.
        InvalidType, InvalidArgument: a condition that is not one bool.

    Example:
        >>> import workbench.fluid as fluid
        >>> step, late = fluid.data("step", [1]), fluid.layers.fill_constant([1], "float32", 10.0)
        >>> rate = fluid.layers.create_global_var([1], 0.0, "float32", persistable=True)
        >>> with fluid.layers.Switch() as switch:
        ...     with switch.case(step < late):
        ...         rate = fluid.layers.fill_constant([1], "float32", 0.5, out=rate)
        ...     with switch.default():
        ...         rate = fluid.layers.fill_constant([1], "float32", 0.25, out=rate)
    """

    def __init__(self, name: str | None = None) -> None:
        require_static("fluid.layers.Switch")
        self._name = name or generate("switch")
        self._is_open = False
        self._none_before: Any = None  # whether no case before was true

    def __enter__(self) -> Switch:
        self._is_open = True
        return self

    def __exit__(self, *error: object) -> None:
        self._is_open = False

    @contextmanager
    def case(self, condition: Variable) -> Iterator[None]:
        """The `with` body runs if `condition` is true and none before was."""
        self._require_open("case")
        _require_bool("Switch", condition)
        before, negated = self._none_before, logical_not(condition)
        self._none_before = negated if before is None else logical_and(before, negated)
        with self._branch(condition if before is None else logical_and(before, condition)):
            yield

    @contextmanager
    def default(self) -> Iterator[None]:
        """The `with` body runs if no case was true."""
        self._require_open("default")
        if self._none_before is None:
            raise PreconditionNotMet("Switch takes a default after at least one case")
        with self._branch(self._none_before):
            yield

    def _require_open(self, what: str) -> None:
        if not self._is_open:
            raise PreconditionNotMet(f"{what} of a Switch belongs inside its block: with Switch() as switch")

    @contextmanager
    def _branch(self, taken: Any) -> Iterator[None]:
        with _body(lambda body: self._complete(taken, body)):
            yield

    def _complete(self, taken: Any, body: Block) -> None:
        written = _written_outside(body)
        if not written:
            return  # nothing of it can be seen
        last = write_once(body)
        names = {variable.name for variable in written}
        other, kept = traced_block(lambda: [assign(v) for v in written], ())
        captured = captured_by([body, other])
        results, _ = cond_op(
            taken,
            [assign(v) if v.name in names else v for v in captured] or None,
            name=self._name,
            true_block=body,
            false_block=other,
            true_outs=[last[v.name] for v in written],
            false_outs=[v.name for v in kept],
            input_names=[v.name for v in captured],
        )
        for result, variable in zip(results, written, strict=True):
            assign(result, variable)


def _require_bool(what: str, condition: Any) -> None:
    if not isinstance(condition, Variable):
        raise not_a_variable(f"{what} takes a Variable as condition", condition)
    if condition.dtype.kind != "bool" or condition.shape not in ((), (1,)):
        got = f"{condition.dtype}{shape_text(condition.shape)}"
        raise InvalidArgument(f"{what} takes one bool as condition, [1], got {condition.name!r}: {got}")


@contextmanager
def _body(complete: Callable[[Block], None]) -> Iterator[None]:
    """The `with` body builds a new block, which `complete` makes part of the one around it."""
    program = default_main_program()
    with unchanged_on_error(program, default_startup_program()):
        body = program.create_block()
        try:
            yield
        finally:
            program.rollback()
        complete(body)


def _written_outside(body: Block) -> list[Variable]:
    """Variables from outside that operators of a block write, in order."""
    names = dict.fromkeys(name for op in body.ops for name in op.output_arg_names if name not in body.vars)
    return [body.var_recursive(name) for name in names]
