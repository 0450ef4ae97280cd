"""The default programs, and the recorder that appends to them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from workbench.errors import InvalidArgument, InvalidType
from workbench.framework import names
from workbench.framework.current import Current, Replaced
from workbench.framework.op.infix import LAYER
from workbench.framework.op.record import Op, Slot
from workbench.framework.op.recorder import current_recorder, recording
from workbench.framework.op.write import OpWrite
from workbench.framework.program.block import Block
from workbench.framework.program.infer import infer
from workbench.framework.program.program import Program
from workbench.framework.program.roles import ROLE, ROLE_VAR
from workbench.framework.program.variable import Variable
from workbench.framework.site import caller

_main: Current[Program] = Current("workbench_main_program", Program())
_startup: Current[Program] = Current("workbench_startup_program", Program())


def default_main_program() -> Program:
    """The program layers append their operators to.

    Example:
        >>> wb.enable_static()
        >>> x = static.data("x", [None, 4])
        >>> x.block.program is static.default_main_program()
        True
    """
    return _main.get()


def default_startup_program() -> Program:
    """The program layers append their initialisers to.

    Example:
        >>> wb.enable_static()
        >>> y = static.nn.fc(static.data("x", [None, 4]), 2)
        >>> len(static.default_startup_program().global_block().ops)
        2
    """
    return _startup.get()


def switch_main_program(program: Program) -> Program:
    """Make `program` the default main program; returns the one before."""
    return _main.switch(program)


def switch_startup_program(program: Program) -> Program:
    """Make `program` the default startup program; returns the one before."""
    return _startup.switch(program)


def program_guard(main_program: Program, startup_program: Program | None = None) -> Replaced:
    """Use other default programs inside the `with` body; without `startup_program` only the main one.

    It holds in this thread only; other threads go on with the programs they have.

    Raises:
        InvalidType: an argument is not a Program.

    Example:
        >>> wb.enable_static()
        >>> main, startup = static.Program(), static.Program()
        >>> with static.program_guard(main, startup):
        ...     x = static.data("x", [None, 4])
        >>> x.block.program is main
        True
    """
    for what, program in (("main_program", main_program), ("startup_program", startup_program)):
        if not isinstance(program, Program) and not (program is None and what == "startup_program"):
            raise InvalidType(f"program_guard takes a Program as {what}, got {program!r}")
    if startup_program is None:
        return _main.replaced(main_program)
    return Replaced((_main, main_program), (_startup, startup_program))


class StaticRecorder:
    """Appends every applied op to the current block of the default main program."""

    name = "static"
    zero_dim = is_eager = False

    def record(self, op: Op, inputs: tuple[Any, ...], attrs: dict[str, Any], name: str | None) -> Any:
        inputs, attrs = op.every_input(inputs), op.complete(attrs)
        program, site = _main.get(), caller()
        specs, in_names = _describe(op, inputs, site)
        out_specs = infer(op, specs, attrs, in_names, site)
        block = program.current_block()
        layer = name if name is not None else names.generate(op.layer or op.type)
        # P-4, P-5: outputs are counted per layer; those of Python operators under `tmp` itself.
        key = layer if layer == LAYER else layer + ".tmp"
        results, outputs = [], {}
        for slot, spec in zip(op.outputs, out_specs):
            output = _make_output(block, key, spec)
            results.append(output)
            if output is not None:
                outputs[slot.name] = [v.name for v in output] if slot.is_list else [output.name]
        attrs[ROLE] = program.op_role  # `attrs` was made for this call
        if program.op_role_var:
            attrs[ROLE_VAR] = list(program.op_role_var)
        if op.needs and "rng" in op.needs and not attrs["stream"]:
            attrs["stream"] = program.next_stream()
            if not attrs.get("startup") and not program.rng_step:
                _count_steps(program)
        given = {slot.name: read for slot, read in zip(op.inputs, in_names) if read is not None}
        block.add_operator(op.type, given, outputs, attrs, site)
        return results[0] if len(results) == 1 else tuple(results)

    def record_into(self, write: OpWrite, given: dict[str, Any]) -> Any:
        block, inputs = _main.get().current_block(), {**write.inputs, **given}
        return block.append_op(write.op.type, inputs=inputs, outputs=write.outputs, attrs=write.attrs)

    def on_variables(self, function: Callable[..., Any], *given: Any) -> Any:
        """`function(*given)`: these are variables."""
        return function(*given)

    def role_guard(self, role: int, pair: Sequence[Any]) -> AbstractContextManager[None]:
        """Give operators appended in the `with` body this role."""
        return _main.get().role_guard(role, pair)

    def begin_update(self, optimizer: Any, pairs: Sequence[Any]) -> None:
        """Nothing: programs have no tensors."""


def _count_steps(program: Program) -> None:
    """Give a program the step counter its random ops draw with; the startup program sets it to 0."""
    program.rng_step = names.generate("@RNG_STEP@")
    for block in (program.global_block(), _startup.get().global_block()):
        if not block.has_var(program.rng_step):
            block.create_var(program.rng_step, (1,), "int64", persistable=True, stop_gradient=True)
    attrs = {"shape": (1,), "value": 0, "dtype": "int64"}
    _startup.get().global_block().append_op("fill_constant", outputs={"Out": program.rng_step}, attrs=attrs)


def _describe(op: Op, inputs: tuple[Any, ...], site: Any) -> tuple[list[Any], list[list[str] | None]]:
    """Specs and variable names of the inputs, by slot."""
    specs: list[Any] = []
    in_names: list[list[str] | None] = []
    for slot, value in zip(op.inputs, inputs):
        if value is None:
            specs.append(None)
            in_names.append(None)
        elif slot.is_list:
            values = [_variable(op, slot, v, site) for v in value]
            specs.append([v.spec for v in values])
            in_names.append([v.name for v in values])
        else:
            known = isinstance(value, Variable) and value.block.program is _main.get()
            variable = value if known else _variable(op, slot, value, site)
            specs.append(variable.spec)
            in_names.append([variable.name])
    return specs, in_names


def _variable(op: Op, slot: Slot, value: Any, site: Any) -> Variable:
    if not isinstance(value, Variable):
        raise InvalidType(
            f"op {op.type!r}: input {slot.name} takes a Variable in static mode, got {_what(value)}\n  at {site}"
        )
    main = _main.get()
    if value.block.program is not main and main.current_block().find_var(value.name) is None:
        theirs, ours = value.block.program.name or "another program", main.name or "the default main program"
        raise InvalidArgument(
            f"op {op.type!r}: input {slot.name} is {value.name!r} of {theirs}, but the op is built in {ours}, "
            f"which has no such variable; a program can use its own variables only\n  at {site}"
        )
    return value


def _what(value: Any) -> str:
    text = repr(value)
    return f"{type(value).__name__} {text if len(text) <= 60 else text[:57] + '...'}"


def _make_output(block: Block, key: str, spec: Any) -> Any:
    if spec is None:
        return None
    if type(spec) is list:
        return [_make_output(block, key, s) for s in spec]
    shape, dtype, kind = spec
    fresh = names.generate(key)
    while block.find_var(fresh) is not None:  # counters started afresh over the same program
        fresh = names.generate(key)
    return block.add_var(Variable(block, fresh, shape, dtype, kind, stop_gradient=dtype.kind != "float"))


static_recorder = StaticRecorder()


def in_static_mode() -> bool:
    """Whether applying an op appends to a Program."""
    return current_recorder() is static_recorder


@contextmanager
def static_mode() -> Iterator[None]:
    """Static mode inside the `with` body, whatever the process-wide mode."""
    with recording(static_recorder):
        yield
