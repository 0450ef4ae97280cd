"""Reading the text that `printer` writes.

    program     := "program" string? ("seed" "=" int)? ("streams" "=" int)? ("rng_step" "=" name)? NL
                   entry* block
    entry       := "lr_scheduler" name "=" value NL | "attribute" word "=" value NL
    block       := "block" int ("inputs" "=" names)? "{" NL (declaration | operator | block)* "}" NL
    declaration := ("var" | "parameter") name ":" type (word ("=" value)?)* NL
    operator    := (outputs "=")? word "(" (word "=" names, ...)? ")" ("{" (word "=" value, ...)? "}")?
                   ("role" "=" roles)? ("role_var" "=" names)? NL
    outputs     := name (":" type)? | word "=" typed names, ...

Names, words, types and values are described in `lexicon`. An output with a type that is not declared yet is
declared by its operator. Nothing is evaluated.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from workbench.errors import InvalidArgument, NotFound
from workbench.framework.names import EMPTY
from workbench.framework.op.record import Op, find_op
from workbench.framework.program.block import Block
from workbench.framework.program.operator import Operator
from workbench.framework.program.program import Program
from workbench.framework.program.roles import OpRole
from workbench.framework.text import assemble
from workbench.framework.text.cursor import Cursor
from workbench.framework.text.lexicon import Token
from workbench.framework.values.constants import MAX_DEPTH, array_from_data
from workbench.framework.values.portable import from_config
from workbench.framework.values.spec import DENSE, KINDS, Spec, size_of

_CONSTANTS = {"None": None, "True": True, "False": False, "inf": float("inf"), "nan": float("nan")}
_ELEMENTS = {"float": (float, int), "int": (int,), "uint": (int,), "bool": (bool,)}


def parse_program(text: str) -> Program:
    """The program a text describes.

    Raises:
        InvalidArgument: the text cannot be read; the message has line, column, what was expected and found.
        NotFound, AlreadyExists, InvalidType: it names what does not exist, or twice; with line and column.
    """
    return _Reader(text).program()


class _Reader(Cursor):
    """One method per rule of the grammar."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.result = Program()
        self.opened: set[int] = set()

    # Program and blocks

    def program(self) -> Program:
        while self.token.kind == "end":
            self.next()
        start = self.token
        self.header()
        while not self.is_word("block"):
            self.entry()
        self.block(None, 0)
        if self.token.kind != "eof":
            self.fail("the end of the text")
        with self.located(start):
            self.finish()
        return self.result

    def header(self) -> None:
        self.keyword("program")
        if self.token.kind == "string":
            self.result.name = self.next().value
        if self.setting("seed"):
            self.result.random_seed = self.integer()
        if self.setting("streams"):
            self.result.streams = self.integer()
        if self.setting("rng_step"):
            self.result.rng_step = self.name()
        self.end()

    def setting(self, word: str) -> bool:
        is_here = self.is_word(word)
        if is_here:
            self.next()
            self.mark("=")
        return is_here

    def entry(self) -> None:
        if self.is_word("lr_scheduler"):
            self.next()
            name = self.name()
            self.result.lr_schedulers[name] = self.assigned()
        elif self.is_word("attribute"):
            self.next()
            key = self.word("the name of an attribute")
            self.result.attributes[key] = self.assigned()
        else:
            self.fail("'block', 'lr_scheduler' or 'attribute'")
        self.end()

    def assigned(self) -> Any:
        self.mark("=")
        return self.value()

    def block(self, parent: Block | None, depth: int) -> None:
        start = self.keyword("block")
        block = self.block_number()
        if block.idx in self.opened:
            self.fail("a block that is not there yet", start)
        if (block.idx == 0) != (parent is None) or (parent and block.idx <= parent.idx) or depth > assemble.MAX_NESTING:
            self.fail("block 0, and in it blocks of higher numbers", start)
        self.opened.add(block.idx)
        block.parent_idx = parent.idx if parent else -1
        if self.setting("inputs"):
            block.inputs = self.names(self.name)
        self.mark("{")
        self.end()
        while not self.is_mark("}"):
            self.statement(block, depth)
        self.next()
        self.end()

    def block_number(self) -> Block:
        """The block of a number, which may come later in the text."""
        token = self.token
        index = self.integer("the number of a block")
        if not 0 <= index < assemble.MAX_BLOCKS:
            self.fail(f"a number from 0 to {assemble.MAX_BLOCKS - 1}", token)
        blocks = self.result.blocks
        blocks.extend(Block(self.result, i) for i in range(len(blocks), index + 1))
        return blocks[index]

    def statement(self, block: Block, depth: int) -> None:
        if self.is_word("var", "name"):
            self.declaration(block, is_parameter=False)
        elif self.is_word("parameter", "name"):
            self.declaration(block, is_parameter=True)
        elif self.is_word("block", "number"):
            self.block(block, depth + 1)
        else:
            self.operator(block)

    def finish(self) -> None:
        """Check what could not be checked on the way."""
        for block in self.result.blocks:
            if block.idx not in self.opened:
                raise NotFound(f"the text mentions a block {block.idx} or above, but has none of that number")
        assemble.finish(self.result)

    # Variables

    def declaration(self, block: Block, is_parameter: bool) -> None:
        start = self.next()
        name = self.name()
        self.mark(":")
        spec = self.type()
        flags: dict[str, Any] = {}
        while self.token.kind in ("word", "string"):
            flag = self.word("a flag")
            flags[flag] = self.assigned() if self.is_mark("=") else True
        self.end()
        with self.located(start):
            assemble.add_variable(block, name, spec, is_parameter, flags)

    def type(self) -> Spec:
        start = self.token
        word = self.word("a type such as float32[?, 10]")
        kind = DENSE
        if word in KINDS and word != DENSE:
            kind, word = word, self.word("a dtype")
        shape = tuple(self.listed("[", "]", self.dimension))
        with self.located(start):
            return assemble.make_spec(shape, word, kind)

    def dimension(self) -> int:
        return -1 if self.accept("?") else self.integer("a dimension (a number or ?)")

    # Operators

    def operator(self, block: Block) -> Operator:
        start = self.token
        outputs, specs = self.outputs()
        kind = self.word("an operator")
        with self.located(start):
            record = find_op(kind)
            outputs = _with_only_slot(record, outputs)
        inputs = self.table("(", ")", self.input)
        attrs = self.table("{", "}", self.attribute) if self.is_mark("{") else {}
        role, role_vars = self.role()
        self.end()
        with self.located(start):
            for name, spec in specs.items():
                _declare(block, name, spec)
            return assemble.add_operator(block, kind, inputs, outputs, attrs, role, role_vars)

    def outputs(self) -> tuple[dict[str, list[str]], dict[str, Spec]]:
        """Names by slot and the types given with them; slot "" stands for the only one the op has."""
        specs: dict[str, Spec] = {}
        if self.token.kind == "name":
            slots = {"": [self.typed(specs)]}
        else:
            slots = {}
            while self.token.kind in ("word", "string") and self.following.text == "=":
                if self.token.value in slots:
                    self.fail("every slot once")
                slot = self.word("an output slot")
                self.mark("=")
                slots[slot] = self.names(lambda: self.typed(specs))
                if not self.accept(","):
                    break
        if slots:
            self.mark("=")
        return slots, specs

    def typed(self, specs: dict[str, Spec]) -> str:
        name = self.name()
        if self.accept(":"):
            specs[name] = self.type()
        return name

    def names(self, item: Callable[[], str]) -> list[str]:
        return self.listed("[", "]", item) if self.is_mark("[") else [item()]

    def input(self) -> tuple[str, list[str]]:
        slot = self.word("an input slot")
        self.mark("=")
        return slot, self.names(self.name)

    def attribute(self) -> tuple[str, Any]:
        return self.word("the name of an attribute"), self.assigned()

    def role(self) -> tuple[int, list[str]]:
        role = 0
        if self.setting("role"):
            role = self.flags()
        return role, self.names(self.name) if self.setting("role_var") else []

    def flags(self) -> int:
        role = 0
        while True:
            token = self.next()
            if token.kind == "word" and token.text in OpRole.__members__:
                role |= OpRole[token.text]
            elif token.kind == "number" and isinstance(token.value, int) and token.value >= 0:
                role |= token.value
            else:
                self.fail(f"a role ({', '.join(OpRole.__members__)})", token)
            if not self.accept("|"):
                return int(role)

    # Values

    def value(self, depth: int = 0) -> Any:
        if depth > MAX_DEPTH:
            self.fail(f"values nested at most {MAX_DEPTH} deep")
        token = self.token
        if token.kind in ("string", "number"):
            return self.next().value if token.text != "-inf" else self.negative_infinity()
        if self.is_mark("["):
            return self.listed("[", "]", lambda: self.value(depth + 1))
        if self.is_mark("("):
            return tuple(self.listed("(", ")", lambda: self.value(depth + 1)))
        if self.is_mark("{"):
            return self.table("{", "}", lambda: self.pair(depth + 1))
        if token.kind == "word":
            return self.named_value(depth)
        self.fail("a value")

    def negative_infinity(self) -> float:
        self.next()
        return float("-inf")

    def pair(self, depth: int) -> tuple[str, Any]:
        if self.token.kind != "string":
            self.fail("a key (a string)")
        key = self.next().value
        self.mark(":")
        return key, self.value(depth)

    def named_value(self, depth: int) -> Any:
        token = self.next()
        if token.text in _CONSTANTS:
            return _CONSTANTS[token.text]
        if token.text == "block":
            return self.block_number()
        if not self.is_mark("("):
            self.fail("a value", token)
        if token.text == "array":
            return self.array()
        config = self.table("(", ")", lambda: (self.word("a field"), self.field(depth + 1)))
        with self.located(token):
            return from_config(token.text, config)

    def field(self, depth: int) -> Any:
        self.mark("=")
        return self.value(depth)

    def array(self) -> np.ndarray:
        self.mark("(")
        start = self.token
        spec = self.type()
        self.mark(",")
        if self.token.kind == "string":
            with self.located(start):
                array = array_from_data(spec.dtype, spec.shape, self.next().value)
        else:
            array = self.spelled(spec, start)
        self.mark(")")
        return array

    def spelled(self, spec: Spec, start: Token) -> np.ndarray:
        values = self.value(MAX_DEPTH - 1)
        if not isinstance(values, list) or len(values) != size_of(spec.shape):
            self.fail("a list of as many numbers as the shape has", start)
        if not all(type(v) in _ELEMENTS[spec.dtype.kind] for v in values):
            self.fail(f"a list of numbers of {spec.dtype}", start)
        try:
            return np.array(values, spec.dtype.numpy).reshape(spec.shape)
        except (OverflowError, ValueError):
            self.fail(f"numbers that fit {spec.dtype}", start)


def _with_only_slot(record: Op, outputs: dict[str, list[str]]) -> dict[str, list[str]]:
    if "" not in outputs:
        return outputs
    if len(record.outputs) != 1:
        slots = ", ".join(slot.name for slot in record.outputs)
        raise InvalidArgument(f"op {record.type!r} has the outputs {slots}; write which one, as in Out=%name")
    return {record.outputs[0].name: outputs[""]}


def _declare(block: Block, name: str, spec: Spec) -> None:
    """Declare an output, or compare with its declaration."""
    known = block.find_var(name)
    if known is None and name != EMPTY:
        assemble.add_variable(block, name, spec, False, {"stop_gradient": not spec.dtype.is_float})
    elif known is not None and known.spec != spec:
        raise InvalidArgument(f"variable {name!r} is declared as {known.spec}, but this line says {spec}")
