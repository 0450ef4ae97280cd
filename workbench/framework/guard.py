"""The default programs, and the recorder that appends to them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from workbench.errors import InvalidType
from workbench.framework import names
from workbench.framework.apply import current_recorder, recording
from workbench.framework.block import Block
from workbench.framework.infer import infer
from workbench.framework.infix import LAYER
from workbench.framework.op import Op, flat
from workbench.framework.program import Program
from workbench.framework.roles import ROLE, ROLE_VAR
from workbench.framework.site import caller
from workbench.framework.variable import Variable

_main = Program()
_startup = Program()


def default_main_program() -> Program:
    """The program layers append their operators to."""
    return _main


def default_startup_program() -> Program:
    """The program layers append their initialisers to."""
    return _startup


def switch_main_program(program: Program) -> Program:
    """Make `program` the default main program; returns the one before."""
    global _main
    old, _main = _main, program
    return old


def switch_startup_program(program: Program) -> Program:
    """Make `program` the default startup program; returns the one before."""
    global _startup
    old, _startup = _startup, program
    return old


@contextmanager
def program_guard(main_program: Program, startup_program: Program | None = None) -> Iterator[None]:
    """Use other default programs inside the `with` body; without `startup_program` only the main one (P-10).

    Raises:
        InvalidType: an argument is not a Program.
    """
    for what, program in (("main_program", main_program), ("startup_program", startup_program)):
        if not isinstance(program, Program) and not (program is None and what == "startup_program"):
            raise InvalidType(f"program_guard takes a Program as {what}, got {program!r}")
    old_main = switch_main_program(main_program)
    old_startup = switch_startup_program(startup_program) if startup_program is not None else None
    try:
        yield
    finally:
        switch_main_program(old_main)
        if old_startup is not None:
            switch_startup_program(old_startup)


class StaticRecorder:
    """Appends every applied op to the current block of the default main program."""

    name = "static"

    def record(self, op: Op, inputs: tuple[Any, ...], attrs: dict[str, Any], name: str | None) -> Any:
        program, site = _main, caller()
        in_names = _input_names(op, inputs, site)
        out_specs = infer(op, [_spec(v) for v in inputs], attrs, list(in_names.values()), site)
        block = program.current_block()
        layer = name if name is not None else names.generate(op.layer or op.type)
        results = [_make_output(block, layer, spec) for spec in out_specs]
        all_attrs = {**attrs, ROLE: program.op_role}
        if program.op_role_var:
            all_attrs[ROLE_VAR] = list(program.op_role_var)
        if "rng" in op.needs and not attrs["stream"]:
            all_attrs["stream"] = program.next_stream()
        block.add_operator(
            op.type,
            {slot: given for slot, given in in_names.items() if given is not None},
            {s.name: [v.name for v in flat([out])] for s, out in zip(op.outputs, results, strict=True) if out is not None},
            all_attrs,
            site,
        )
        return results[0] if len(results) == 1 else tuple(results)


def _input_names(op: Op, inputs: tuple[Any, ...], site: Any) -> dict[str, list[str] | None]:
    found: dict[str, list[str] | None] = {}
    for slot, value in zip(op.inputs, inputs, strict=True):
        if value is None:
            found[slot.name] = None
            continue
        values = value if slot.is_list else [value]
        for v in values:
            if not isinstance(v, Variable):
                raise InvalidType(
                    f"op {op.type!r}: input {slot.name} takes a Variable in static mode, got {_what(v)}\n  at {site}"
                )
        found[slot.name] = [v.name for v in values]
    return found


def _what(value: Any) -> str:
    text = repr(value)
    return f"{type(value).__name__} {text if len(text) <= 60 else text[:57] + '...'}"


def _spec(value: Any) -> Any:
    if value is None:
        return None
    return [v.spec for v in value] if isinstance(value, list | tuple) else value.spec


def _make_output(block: Block, layer: str, spec: Any) -> Any:
    if spec is None:
        return None
    if isinstance(spec, list):
        return [_make_output(block, layer, s) for s in spec]
    # P-4, P-5: outputs are counted per layer; those of Python operators under `tmp` itself.
    key = layer if layer == LAYER else layer + ".tmp"
    shape, dtype, kind = spec
    made = Variable(block, names.generate(key), shape, dtype, kind, stop_gradient=not dtype.is_float)
    return block.add_var(made)


static_recorder = StaticRecorder()


def in_static_mode() -> bool:
    """Whether applying an op appends to a Program."""
    return current_recorder() is static_recorder


@contextmanager
def static_mode() -> Iterator[None]:
    """Static mode inside the `with` body, whatever the process-wide mode."""
    with recording(static_recorder):
        yield
