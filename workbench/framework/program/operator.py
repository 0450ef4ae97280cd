"""Operator: one op of a block, with the names of what it reads and writes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from workbench.framework.names import EMPTY
from workbench.framework.op.record import Op, find_op
from workbench.framework.program.roles import FORWARD, OPTIMIZE, ROLE, ROLE_VAR
from workbench.framework.written import written

if TYPE_CHECKING:
    from workbench.framework.program.block import Block
    from workbench.framework.site import Site


class Operator:
    """An application of an op inside a block.

    Attributes:
        type: type of the op.
        inputs, outputs: `{slot: [names]}`; an absent optional slot has no entry, an output nobody wants is `@EMPTY@`.
        attrs: every attribute of the op, plus `op_role` and, where it applies, `op_role_var` (P-16, P-32).
        site: where in the user's code it was built.
    """

    __slots__ = ("_record", "attrs", "block", "inputs", "outputs", "site", "type")

    def __init__(
        self,
        block: Block,
        type: str,
        inputs: dict[str, list[str]],
        outputs: dict[str, list[str]],
        attrs: dict[str, Any],
        site: Site | None,
    ) -> None:
        self.block, self.type, self.inputs, self.outputs, self.attrs = block, type, inputs, outputs, attrs
        self.site = site
        self._record: Op | None = None

    @property
    def record(self) -> Op:
        """The op record of this type."""
        if self._record is None:
            self._record = find_op(self.type)
        return self._record

    @property
    def operands(self) -> Mapping[str, list[str]]:
        """`inputs`, and of a backward operator those that it does not carry: values of the same shape and dtype."""
        return self.record.operands(self.inputs)

    @property
    def form(self) -> Op:
        """The op that computes this: the record, or its form for rows where it reads a sparse gradient."""
        return self.record.form_for(self.block.var_recursive(name).kind for name in self.input_arg_names)

    @property
    def role(self) -> int:
        return self.attrs.get(ROLE, FORWARD)

    @property
    def role_vars(self) -> list[tuple[str, str]]:
        """`op_role_var` as (parameter, gradient) pairs."""
        names = self.attrs.get(ROLE_VAR) or []
        return list(zip(names[::2], names[1::2], strict=True))

    def input(self, slot: str) -> list[str]:
        """Names in an input slot, [] if it is absent."""
        return self.inputs.get(slot, [])

    def output(self, slot: str) -> list[str]:
        """Names in an output slot, [] if it is absent."""
        return self.outputs.get(slot, [])

    @property
    def input_names(self) -> list[str]:
        """The input slots in use."""
        return list(self.inputs)

    @property
    def output_names(self) -> list[str]:
        """The output slots in use."""
        return list(self.outputs)

    @property
    def input_arg_names(self) -> list[str]:
        """All variables read, in slot order."""
        return [name for names in self.inputs.values() for name in names]

    @property
    def value_names(self) -> list[str]:
        """All variables whose values are read, in slot order."""
        unread = self.record.named_only
        if not unread:
            return self.input_arg_names
        return [name for slot, names in self.inputs.items() if slot not in unread for name in names]

    @property
    def output_arg_names(self) -> list[str]:
        """All variables written, in slot order."""
        return [name for names in self.outputs.values() for name in names if name != EMPTY]

    def attr(self, name: str) -> Any:
        """The value of an attribute; KeyError if it has none of that name."""
        return self.attrs[name]

    def has_attr(self, name: str) -> bool:
        return name in self.attrs

    def all_attrs(self) -> dict[str, Any]:
        """A copy of the attributes."""
        return dict(self.attrs)

    def set_attr(self, name: str, value: Any) -> None:
        """Change an attribute (the program's version moves on)."""
        self.attrs[name] = value
        self.block.program.touch()

    _set_attr = set_attr

    def rename_input(self, old: str, new: str) -> None:
        """Read `new` wherever `old` was read."""
        self.inputs = {slot: [new if n == old else n for n in names] for slot, names in self.inputs.items()}
        self.block.program.touch()

    def rename_output(self, old: str, new: str) -> None:
        """Write `new` wherever `old` was written."""
        self.outputs = {slot: [new if n == old else n for n in names] for slot, names in self.outputs.items()}
        self.block.program.touch()

    def call_attrs(self) -> dict[str, Any]:
        """The attributes the op's rules take (without roles)."""
        known = self.record.attrs
        return {key: value for key, value in self.attrs.items() if key in known}

    @property
    def is_served(self) -> bool:
        """Whether it updates on a parameter server: `op_role_var` then has the names of the trainers' program (T-7)."""
        return self.block.idx > 0 and bool(self.role & OPTIMIZE)

    @property
    def draws(self) -> bool:
        """Whether it draws random numbers in every step; initialisers and dropout in a test program do not."""
        return self.record.draws(self.attrs) and not self.attrs.get("startup")

    def blocks(self) -> list[Block]:
        """The sub-blocks held in attributes, alone or in lists."""
        listed = (value if isinstance(value, list) else [value] for value in self.attrs.values())
        return [value for values in listed for value in values if isinstance(value, type(self.block))]

    def __repr__(self) -> str:
        return written(self)
