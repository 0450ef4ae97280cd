"""Reading the JSON that `serialize` writes.

What comes in is untrusted: every part is checked, and named in errors by its path.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

from workbench.errors import EnforceNotMet, InvalidArgument, InvalidType
from workbench.framework.program.block import Block
from workbench.framework.program.program import Program
from workbench.framework.site import Site
from workbench.framework.text import assemble
from workbench.framework.values.constants import MAX_DEPTH, array_from_data
from workbench.framework.values.portable import from_config
from workbench.framework.written import JSON, reads

FORMAT, VERSION = "workbench.program", 1
_PROGRAM = (
    "format",
    "version",
    "name",
    "random_seed",
    "streams",
    "rng_step",
    "lr_schedulers",
    "attributes",
    "blocks",
)
_BLOCK = ("parent", "inputs", "variables", "operators")
_VARIABLE = ("name", "shape", "dtype", "kind", "parameter", "flags")
_OPERATOR = ("type", "inputs", "outputs", "attrs", "role", "role_vars")
_JSON_NAMES = {dict: "an object", list: "a list", str: "a string", int: "an integer", bool: "true or false"}


def parse_json(text: str | bytes) -> Any:
    """JSON text as plain values; NaN and Infinity, which are no JSON, are refused.

    Raises:
        InvalidArgument: not JSON.
    """
    try:
        return json.loads(text, parse_constant=_refuse_constant, object_pairs_hook=_unique_keys)
    except RecursionError:
        raise InvalidArgument("not a program: the JSON is nested too deep") from None
    except (ValueError, TypeError) as error:  # UnicodeDecodeError and JSONDecodeError among them
        raise InvalidArgument(f"not a program: the text is not JSON: {error}") from error


def _refuse_constant(word: str) -> NoReturn:
    raise ValueError(f"{word} is not JSON")


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    entries: dict[str, Any] = {}
    for key, value in pairs:
        if key in entries:
            raise ValueError(f"the key {_short(key)} occurs twice in one object")
        entries[key] = value
    return entries


@reads(Program, JSON)
def program_from_json(text: str | bytes) -> Program:
    """The program that `serialize.program_to_json` gives `text` for. See `program_from_dict`.

    Raises:
        InvalidArgument: also for text that is not JSON.
    """
    return program_from_dict(parse_json(text))


def program_from_dict(document: Any) -> Program:
    """The program of a document, checked part by part; a part that is wrong is named by its path.

    What ops ask of their inputs and attributes is not checked here but by `check.check_program`.

    Raises:
        InvalidArgument (and its kind InvalidType): not a document of this format and version, a missing or
            unknown field, a wrong type or size.
        NotFound: an unknown op, slot, attribute, variable or class.
        AlreadyExists: a variable declared twice.
    """
    root = _Node(document, "program")
    _check_header(root)
    root.fields(_PROGRAM)
    return _ProgramBuilder(root["blocks"].nodes()).build(root)


def _check_header(root: _Node) -> None:
    fields = root.of(dict)
    if fields.get("format") != FORMAT:
        root.fail(f'not a program: expected "format": "{FORMAT}"', f"got {_short(fields.get('format'))}")
    version = fields.get("version")
    if version != VERSION or isinstance(version, bool):
        root.fail(f"version {_short(version)} is not known", f"this release reads version {VERSION}")


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


class _Node:
    """A part of the document and its path, as `program.blocks[0].operators[3]`."""

    __slots__ = ("key", "parent", "value")

    def __init__(self, value: Any, key: str, parent: _Node | None = None) -> None:
        self.value, self.key, self.parent = value, key, parent

    @property
    def path(self) -> str:
        if self.parent is None:
            return self.key
        return self.parent.path + (f"[{self.key}]" if isinstance(self.parent.value, list) else f".{self.key}")

    def fail(self, *reasons: str) -> NoReturn:
        raise InvalidArgument(f"{self.path}: {'; '.join(reasons)}")

    def of(self, kind: type) -> Any:
        """The value, which has to be of a type."""
        if not isinstance(self.value, kind) or (kind is int and isinstance(self.value, bool)):
            raise InvalidType(f"{self.path}: expected {_JSON_NAMES[kind]}, got {_short(self.value)}")
        return self.value

    def __getitem__(self, key: str) -> _Node:
        return _Node(self.value[key], key, self)

    def fields(self, wanted: tuple[str, ...], optional: tuple[str, ...] = ()) -> None:
        """Refuse missing and unknown fields."""
        given = self.of(dict)
        for name in wanted:
            if name not in given:
                self.fail(f"the field {name!r} is missing")
        for name in given:
            if name not in wanted and name not in optional:
                self.fail(f"there is no field {name!r}", f"the fields are {', '.join((*wanted, *optional))}")

    def items(self) -> Iterator[tuple[str, _Node]]:
        for key, value in self.of(dict).items():
            yield key, _Node(value, key, self)

    def nodes(self) -> list[_Node]:
        return [_Node(value, str(i), self) for i, value in enumerate(self.of(list))]

    def strings(self) -> list[str]:
        given = self.of(list)
        if not all(type(v) is str for v in given):
            raise InvalidType(f"{self.path}: expected a list of strings, got {_short(given)}")
        return list(given)

    @contextmanager
    def located(self) -> Iterator[None]:
        """Errors about this part name its path."""
        try:
            yield
        except EnforceNotMet as error:
            raise type(error)(f"{self.path}: {error}") from error


class _ProgramBuilder:
    """Makes a program from the nodes of a document."""

    def __init__(self, blocks: list[_Node]) -> None:
        self.program = Program()
        self.nodes = blocks

    def build(self, root: _Node) -> Program:
        program = self.program
        program.name = root["name"].of(str)
        program.random_seed = root["random_seed"].of(int)
        program.streams = root["streams"].of(int)
        program.rng_step = root["rng_step"].of(str)
        self.make_blocks(root["blocks"])
        program.attributes = {key: self.value(node) for key, node in root["attributes"].items()}
        program.lr_schedulers = {key: self.value(node) for key, node in root["lr_schedulers"].items()}
        for block, node in zip(program.blocks, self.nodes):
            for variable in node["variables"].nodes():
                self.variable(block, variable)
        for block, node in zip(program.blocks, self.nodes):
            for operator in node["operators"].nodes():
                self.operator(block, operator)
        with root.located():
            assemble.finish(program)
        return program

    def make_blocks(self, node: _Node) -> None:
        if not 0 < len(self.nodes) <= assemble.MAX_BLOCKS:
            node.fail(f"a program has 1 to {assemble.MAX_BLOCKS} blocks, got {len(self.nodes)}")
        self.program.blocks = []
        depth: list[int] = []
        for index, block in enumerate(self.nodes):
            block.fields(_BLOCK)
            parent = block["parent"].of(int)
            if not (parent == -1 if index == 0 else 0 <= parent < index):
                block["parent"].fail(f"the parent of block {index} is a block before it (-1 for block 0), got {parent}")
            depth.append(depth[parent] + 1 if index else 0)
            if depth[-1] > assemble.MAX_NESTING:
                block["parent"].fail(f"blocks are nested more than {assemble.MAX_NESTING} deep")
            new = Block(self.program, index, parent)
            new.inputs = block["inputs"].strings()
            self.program.blocks.append(new)

    def variable(self, block: Block, node: _Node) -> None:
        node.fields(_VARIABLE, optional=("site",))
        shape = [dim.of(int) for dim in node["shape"].nodes()]
        name, dtype, kind = (node[field].of(str) for field in ("name", "dtype", "kind"))
        is_parameter = node["parameter"].of(bool)
        flags = {word: self.value(flag) for word, flag in node["flags"].items()}
        with node.located():
            spec = assemble.make_spec(shape, dtype, kind)
            assemble.add_variable(block, name, spec, is_parameter, flags, self.site(node))

    def operator(self, block: Block, node: _Node) -> None:
        node.fields(_OPERATOR, optional=("site",))
        type = node["type"].of(str)
        inputs = {slot: names.strings() for slot, names in node["inputs"].items()}
        outputs = {slot: names.strings() for slot, names in node["outputs"].items()}
        attrs = {key: self.value(value) for key, value in node["attrs"].items()}
        role, role_vars = node["role"].of(int), node["role_vars"].strings()
        site = self.site(node)
        with node.located():
            assemble.add_operator(block, type, inputs, outputs, attrs, role, role_vars, site)

    def site(self, node: _Node) -> Site | None:
        if "site" not in node.value:
            return None
        parts = node["site"].nodes()
        if len(parts) != 2:
            node["site"].fail("expected a file name and a line number")
        return Site(parts[0].of(str), parts[1].of(int))

    # Values of attributes

    def value(self, node: _Node, depth: int = 0) -> Any:
        value = node.value
        if value is None or isinstance(value, bool | int | float | str):
            return value
        if depth > MAX_DEPTH:
            node.fail(f"values are nested more than {MAX_DEPTH} deep")
        if isinstance(value, list):
            return [self.value(item, depth + 1) for item in node.nodes()]
        if not isinstance(value, dict) or len(value) != 1:
            node.fail("expected a value, or an object with one key that begins with $", f"got {_short(value)}")
        ((key, inner),) = node.items()
        read = self.READERS.get(key)
        if read is None:
            node.fail(f"{_short(key)} is no kind of value", f"the kinds are {', '.join(self.READERS)}")
        return read(self, inner, depth + 1)

    def read_float(self, node: _Node, depth: int) -> float:
        if node.of(str) not in ("nan", "inf", "-inf"):
            node.fail("expected nan, inf or -inf", f"got {_short(node.value)}")
        return float(node.value)

    def read_tuple(self, node: _Node, depth: int) -> tuple[Any, ...]:
        return tuple(self.value(item, depth) for item in node.nodes())

    def read_dict(self, node: _Node, depth: int) -> dict[str, Any]:
        return {key: self.value(item, depth) for key, item in node.items()}

    def read_block(self, node: _Node, depth: int) -> Block:
        index = node.of(int)
        if not 0 < index < len(self.program.blocks):
            node.fail(f"there is no inner block {index}")
        return self.program.blocks[index]

    def read_array(self, node: _Node, depth: int) -> Any:
        node.fields(("dtype", "shape", "data"))
        shape = tuple(dim.of(int) for dim in node["shape"].nodes())
        dtype, data = node["dtype"].of(str), node["data"].of(str)
        with node.located():
            return array_from_data(assemble.make_spec(shape, dtype).dtype, shape, data)

    def read_object(self, node: _Node, depth: int) -> Any:
        if "type" not in node.of(dict):
            node.fail("the field 'type' is missing")
        name = node["type"].of(str)
        config = {key: self.value(item, depth) for key, item in node.items() if key != "type"}
        with node.located():
            return from_config(name, config)

    READERS: dict[str, Callable[[_ProgramBuilder, _Node, int], Any]] = {
        "$float": read_float,
        "$tuple": read_tuple,
        "$dict": read_dict,
        "$array": read_array,
        "$block": read_block,
        "$object": read_object,
    }
