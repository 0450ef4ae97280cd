"""Programs as versioned JSON: data only, nothing in it is ever executed.

    {"format": "workbench.program", "version": 1, "name": "", "random_seed": 0, "streams": 0, "rng_step": "",
     "lr_schedulers": {}, "attributes": {},
     "blocks": [{"parent": -1, "inputs": [], "variables": [...], "operators": [...]}]}

    variable: {"name": "x", "shape": [-1, 4], "dtype": "float32", "kind": "dense", "parameter": false,
               "flags": {...}}
    operator: {"type": "mul", "inputs": {"X": ["x"]}, "outputs": {...}, "attrs": {...}, "role": 0,
               "role_vars": []}

Values that JSON has no word for are objects with one key: `{"$float": "nan"}`, `{"$tuple": [...]}`,
`{"$dict": {...}}`, `{"$array": {"dtype", "shape", "data"}}` (base64, little-endian, row-major),
`{"$block": 1}` and `{"$object": {"type": "L2Decay", ...}}` for objects of registered classes (see
`portable`). `deserialize` reads it back. Left out is the state of a program under construction: current block
and `role_guard`.
"""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np

from workbench.errors import InvalidArgument
from workbench.framework.program.block import Block
from workbench.framework.program.operator import Operator
from workbench.framework.program.program import Program
from workbench.framework.program.roles import ROLE, ROLE_VAR
from workbench.framework.program.variable import Parameter, Variable
from workbench.framework.site import Site
from workbench.framework.text.deserialize import FORMAT, VERSION, program_from_dict, program_from_json
from workbench.framework.text.fields import flag_values, written_order
from workbench.framework.values.constants import MAX_DEPTH, array_data, array_dtype, plain
from workbench.framework.values.portable import config_of
from workbench.framework.written import JSON, writes

__all__ = ["program_from_dict", "program_from_json", "program_to_dict", "program_to_json"]


@writes(Program, JSON)
def program_to_json(program: Program, with_sites: bool = False, indent: int | None = None) -> str:
    """A program as JSON text; equal programs give equal text.

    Args:
        with_sites: also write where operators and variables were made (file names of this machine).
        indent: as in `json.dumps`.

    Raises:
        InvalidArgument: an attribute holds what this format has no word for (a function); it is named.
    """
    separators = (",", ":") if indent is None else None
    document = program_to_dict(program, with_sites)
    return json.dumps(document, allow_nan=False, separators=separators, indent=indent)


def program_to_dict(program: Program, with_sites: bool = False) -> dict[str, Any]:
    """The document of `program_to_json` as plain dicts and lists."""
    return {
        "format": FORMAT,
        "version": VERSION,
        "name": program.name,
        "random_seed": program.random_seed,
        "streams": program.streams,
        "rng_step": program.rng_step,
        "lr_schedulers": {
            name: encode(value, f"the learning-rate scheduler of {name!r}")
            for name, value in program.lr_schedulers.items()
        },
        "attributes": {key: encode(value, f"attribute {key!r}") for key, value in program.attributes.items()},
        "blocks": [_block(block, with_sites) for block in program.blocks],
    }


def _block(block: Block, with_sites: bool) -> dict[str, Any]:
    return {
        "parent": block.parent_idx,
        "inputs": list(block.inputs),
        "variables": [_variable(v, with_sites) for v in written_order(block)],
        "operators": [_operator(op, i, with_sites) for i, op in enumerate(block.ops)],
    }


def _variable(variable: Variable, with_sites: bool) -> dict[str, Any]:
    where = f"variable {variable.name!r}"
    return {
        "name": variable.name,
        "shape": list(variable.shape),
        "dtype": variable.dtype.name,
        "kind": variable.kind,
        "parameter": isinstance(variable, Parameter),
        "flags": {word: encode(value, where) for word, value, _ in flag_values(variable)},
        **_site(variable.site, with_sites),
    }


def _operator(op: Operator, index: int, with_sites: bool) -> dict[str, Any]:
    where = f"operator {index} ({op.type}) of block {op.block.idx}"
    attrs = {key: value for key, value in sorted(op.attrs.items()) if key not in (ROLE, ROLE_VAR)}
    return {
        "type": op.type,
        "inputs": {slot: list(names) for slot, names in op.inputs.items()},
        "outputs": {slot: list(names) for slot, names in op.outputs.items()},
        "attrs": {key: encode(value, f"attribute {key!r} of {where}") for key, value in attrs.items()},
        "role": int(op.role),
        "role_vars": list(op.attrs.get(ROLE_VAR) or ()),
        **_site(op.site, with_sites),
    }


def _site(site: Site | None, with_sites: bool) -> dict[str, Any]:
    return {"site": [site.file, site.line]} if with_sites and site else {}


def encode(value: Any, where: str, depth: int = 0) -> Any:
    """A value as JSON has it.

    Raises:
        InvalidArgument: a kind of value that programs do not hold; `where` says whose it is.
    """
    value = plain(value)
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else {"$float": repr(float(value))}
    if depth > MAX_DEPTH:
        raise InvalidArgument(f"{where} is nested more than {MAX_DEPTH} deep")
    if isinstance(value, list | tuple):
        items = [encode(v, where, depth + 1) for v in value]
        return items if isinstance(value, list) else {"$tuple": items}
    return _encode_object(value, where, depth + 1)


def _encode_object(value: Any, where: str, depth: int) -> Any:
    if isinstance(value, dict):
        return {"$dict": _encode_fields(value, where, depth)}
    if isinstance(value, Block):
        return {"$block": value.idx}
    if isinstance(value, np.ndarray):
        return {"$array": _encode_array(value, where)}
    known = config_of(value)
    if known is None:
        raise InvalidArgument(
            f"{where} holds a {type(value).__module__}.{type(value).__qualname__}, which cannot be saved; "
            "objects can whose class is registered with workbench.framework.values.portable"
        )
    name, config = known
    return {"$object": {"type": name, **_encode_fields(config, where, depth)}}


def _encode_fields(fields: dict[Any, Any], where: str, depth: int) -> dict[str, Any]:
    for key in fields:
        if not isinstance(key, str):
            raise InvalidArgument(f"{where} holds a dict with the key {key!r}; only strings can be saved as keys")
    return {key: encode(value, where, depth) for key, value in fields.items()}


def _encode_array(array: np.ndarray, where: str) -> dict[str, Any]:
    dtype = array_dtype(array)
    if dtype is None:
        raise InvalidArgument(f"{where} holds an array of {array.dtype}, which is no dtype of tensors")
    return {"dtype": dtype.name, "shape": list(array.shape), "data": array_data(array)}
