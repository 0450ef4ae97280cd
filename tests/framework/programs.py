"""Hypothesis-made programs: any names, values, flags, blocks."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st

from workbench.framework.program.block import Block
from workbench.framework.program.program import Program
from workbench.framework.values.dtype import ALL
from workbench.framework.values.portable import portable

DTYPES = st.sampled_from([d.name for d in ALL])
SHAPES = st.lists(st.integers(-1, 2000) | st.just(-1), max_size=4).map(tuple)
NAMES = st.from_regex(r"[a-z]{1,3}_[0-9](\.tmp_[0-9])?(@GRAD)?", fullmatch=True) | st.text(max_size=6)
ROLES = st.sampled_from([0, 1, 2, 0x10, 0x12, 0x100, 0x101, 0x1000, 0x2000, 0xFFFF])


@portable
class ToyDecay:
    """Stands for a regularizer."""

    def __init__(self, coeff: float = 0.0, plan: Any = None) -> None:
        self.coeff, self.plan = coeff, plan

    def to_config(self) -> dict[str, Any]:
        return {"coeff": self.coeff, "plan": self.plan}


@st.composite
def arrays(draw: st.DrawFn) -> np.ndarray:
    dtype = draw(st.sampled_from(ALL)).numpy
    shape = tuple(draw(st.lists(st.integers(0, 5), max_size=3)))
    size = int(np.prod(shape)) * dtype.itemsize
    raw = draw(st.binary(min_size=size, max_size=size))
    if dtype.kind == "b":
        raw = bytes(b & 1 for b in raw)
    return np.frombuffer(raw, dtype).reshape(shape)


ATOMS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | arrays()
VALUES = st.recursive(
    ATOMS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(st.text(max_size=4), inner, max_size=3)
        | st.builds(ToyDecay, st.floats(), inner)
    ),
    max_leaves=6,
)


@st.composite
def programs(draw: st.DrawFn) -> Program:
    """A program that can be printed and saved; whether it would pass the checker is another question."""
    program = Program()
    program.name = draw(st.text(max_size=8))
    program.random_seed = draw(st.integers(0, 2**63 - 1) | st.just(0))
    program.streams = draw(st.integers(0, 9))
    program.attributes = draw(st.dictionaries(st.text(max_size=5), VALUES, max_size=2))
    for index in range(1, draw(st.integers(1, 4))):
        parent = draw(st.integers(0, index - 1))
        program.blocks.append(Block(program, index, parent))
    for block in program.blocks:
        draw(_contents(block))
    return program


@st.composite
def _contents(draw: st.DrawFn, block: Block) -> None:
    for name in draw(st.lists(NAMES, unique=True, min_size=1, max_size=5)):
        draw(_variable(block, name))
    block.inputs = draw(st.lists(st.sampled_from(sorted(block.vars)), unique=True, max_size=2))
    for _ in range(draw(st.integers(0, 4))):
        draw(_operator(block))


@st.composite
def _variable(draw: st.DrawFn, block: Block, name: str) -> None:
    shape, dtype = draw(SHAPES), draw(DTYPES)
    if block.idx == 0 and draw(st.booleans()):
        parameter = block.create_parameter(name, tuple(max(d, 0) for d in shape), dtype, trainable=draw(st.booleans()))
        parameter.need_clip, parameter.stop_gradient = draw(st.booleans()), draw(st.booleans())
        parameter.regularizer = draw(st.none() | st.builds(ToyDecay, st.floats()))
        parameter.optimize_attr = draw(
            st.just({"learning_rate": 1.0}) | st.dictionaries(st.text(max_size=3), st.floats())
        )
        return
    flags = [draw(st.booleans()) if draw(st.booleans()) else False for _ in range(4)]
    kind = draw(st.sampled_from(["dense", "dense", "rows", "stack"]))
    block.create_var(name, shape, dtype, kind, *flags)


@st.composite
def _operator(draw: st.DrawFn, block: Block) -> None:
    seen: list[str] = []
    around: Block | None = block
    while around is not None:
        seen += around.vars
        around = around.parent
    some = st.lists(st.sampled_from(sorted(set(seen))) | st.just("@EMPTY@"), max_size=3)
    value = draw(VALUES | st.sampled_from(block.program.blocks[1:] or [None]))
    attrs = {"value": value, "more": None, "op_role": draw(ROLES)}
    pairs = draw(st.lists(st.sampled_from(sorted(set(seen))), max_size=2)) * 2
    if pairs:
        attrs["op_role_var"] = pairs
    slots = [{slot: draw(some)} if draw(st.booleans()) else {} for slot in ("X", "Out")]
    block.add_operator("toy_any", slots[0], slots[1], attrs, None)
