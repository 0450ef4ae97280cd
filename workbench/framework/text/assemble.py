"""Putting a program together from a description: the rules that text and JSON share.

The functions raise errors that say what is wrong; the reader adds where in its document.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from workbench.errors import AlreadyExists, InvalidArgument, InvalidType, NotFound, did_you_mean, one_of
from workbench.framework.names import EMPTY
from workbench.framework.op.record import Slot, find_op
from workbench.framework.program.block import Block
from workbench.framework.program.operator import Operator
from workbench.framework.program.program import Program
from workbench.framework.program.roles import ROLE, ROLE_VAR
from workbench.framework.program.variable import Parameter, Variable
from workbench.framework.site import Site
from workbench.framework.text.fields import flags_of
from workbench.framework.values.constants import check_size
from workbench.framework.values.dtype import DType, as_dtype
from workbench.framework.values.spec import DENSE, KINDS, Spec

MAX_BLOCKS = 10_000
MAX_NESTING = 64
MAX_ROLE = 0xFFFF
MAX_SEED = 1 << 64


def make_spec(shape: Sequence[int], dtype: str, kind: str = DENSE) -> Spec:
    """A checked Spec.

    Raises:
        InvalidArgument, InvalidType: no such dtype or kind, a dimension below −1, an absurd size.
    """
    if kind not in KINDS:
        raise InvalidArgument(f"{kind!r} is no kind of variable; the kinds are {one_of(KINDS)}")
    spec = Spec(tuple(shape), _exact_dtype(dtype), kind)
    check_size(spec.shape, spec.dtype)
    return spec


def _exact_dtype(name: str) -> DType:
    dtype = as_dtype(name)
    if dtype.name != name:
        raise InvalidType(f"{name!r} is not a dtype; write {dtype.name!r}")
    return dtype


def add_variable(
    block: Block,
    name: str,
    spec: Spec,
    is_parameter: bool,
    flags: Mapping[str, Any],
    site: Site | None = None,
) -> Variable:
    """Declare a variable; `flags` maps the words of `fields` to values, those missing have their defaults.

    Raises:
        AlreadyExists: the block has one of that name. NotFound, InvalidType: a wrong flag.
    """
    if name in block.vars:
        raise AlreadyExists(f"block {block.idx} declares variable {name!r} twice")
    known = flags_of(is_parameter)
    for word in flags:
        if word not in known:
            raise NotFound(f"a {_noun(is_parameter)} has no flag {word!r}.{did_you_mean(word, known)}")
    values = {field: _flag(word, flags.get(word, default), default) for word, (field, default) in known.items()}
    variable: Variable
    if is_parameter:
        persistable, is_data, check_feed = (values.pop(k) for k in ("persistable", "is_data", "need_check_feed"))
        variable = Parameter(block, name, spec.shape, spec.dtype, site=site, **values)
        variable.optimize_attr = values["optimize_attr"]
        variable.kind, variable.persistable, variable.is_data, variable.need_check_feed = (
            spec.kind,
            persistable,
            is_data,
            check_feed,
        )
    else:
        variable = Variable(block, name, spec.shape, spec.dtype, spec.kind, site=site, **values)
    return block.add_var(variable)


def _noun(is_parameter: bool) -> str:
    return "parameter" if is_parameter else "variable"


def _flag(word: str, value: Any, default: Any) -> Any:
    if isinstance(default, bool) and not isinstance(value, bool):
        raise InvalidType(f"{word} is True or False, got {value!r}")
    if word == "optimize_attr":
        numbers = isinstance(value, dict) and all(
            isinstance(k, str) and isinstance(v, int | float) for k, v in value.items()
        )
        if not numbers:
            raise InvalidType(f"optimize_attr is a dict of numbers, got {value!r}")
        return dict(value)
    return value


def add_operator(
    block: Block,
    type: str,
    inputs: dict[str, list[str]],
    outputs: dict[str, list[str]],
    attrs: Mapping[str, Any],
    role: int = 0,
    role_vars: Sequence[str] = (),
    site: Site | None = None,
) -> Operator:
    """Append an operator over declared variables; attributes that are missing get their defaults.

    Whether the op accepts its inputs is not asked here but by `check`.

    Raises:
        NotFound: an unknown op, slot, attribute or variable. InvalidArgument: a wrong role.
    """
    record = find_op(type)
    complete = record.complete(dict(attrs))
    for what, slots, given in (("input", record.inputs, inputs), ("output", record.outputs, outputs)):
        _check_slots(type, what, slots, given)
        for names in given.values():
            _check_names(block, names)
    if not 0 <= role <= MAX_ROLE:
        raise InvalidArgument(f"op_role is an int from 0 to {MAX_ROLE:#x}, got {role}")
    if len(role_vars) % 2:
        raise InvalidArgument(f"op_role_var lists pairs of parameter and gradient, got {len(role_vars)} names")
    complete[ROLE] = role
    if role_vars:
        complete[ROLE_VAR] = list(role_vars)
    return block.add_operator(type, inputs, outputs, complete, site)


def _check_slots(type: str, what: str, slots: Sequence[Slot], given: Mapping[str, Any]) -> None:
    known = [slot.name for slot in slots]
    for name in given:
        if name not in known:
            raise NotFound(f"op {type!r} has no {what} {name!r}; it has {one_of(known)}")


def _check_names(block: Block, names: Sequence[str]) -> None:
    for name in names:
        if name != EMPTY and block.find_var(name) is None:
            raise NotFound(f"variable {name!r} is not declared.{did_you_mean(name, block.vars)}")


def finish(program: Program) -> None:
    """Check what names what is declared later: inputs of blocks, `op_role_var`, schedulers, the step counter.

    Raises:
        InvalidArgument, NotFound: naming the block or variable.
    """
    if not (0 <= program.streams < MAX_SEED and -MAX_SEED < program.random_seed < MAX_SEED):
        raise InvalidArgument("the seed has at most 64 bits, streams is >= 0")
    for block in program.blocks:
        for name in block.inputs:
            block.var(name)
        for op in block.ops:
            _check_names(block, () if op.is_served else op.attrs.get(ROLE_VAR) or ())
    named = [*program.lr_schedulers, *([program.rng_step] if program.rng_step else [])]
    _check_names(program.global_block(), named)
