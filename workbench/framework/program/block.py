"""Block: the variables and operators of one scope of a Program."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from workbench.errors import AlreadyExists, InvalidArgument, InvalidType, NotFound, did_you_mean, one_of
from workbench.framework.names import EMPTY, generate
from workbench.framework.op.record import Op, find_op
from workbench.framework.program.infer import infer_specs
from workbench.framework.program.operator import Operator
from workbench.framework.program.roles import ROLE, ROLE_VAR
from workbench.framework.program.variable import Parameter, Variable
from workbench.framework.site import Site, caller
from workbench.framework.values.dtype import as_dtype
from workbench.framework.values.spec import DENSE, Spec, agree, as_shape
from workbench.framework.written import written

if TYPE_CHECKING:
    from workbench.framework.program.program import Program

Names = Variable | str | Sequence["Variable | str"] | None


class Block:
    """An ordered list of operators over a set of variables; sees its parent's variables too.

    Attributes:
        idx, parent_idx: position in `program.blocks`, and that of the block around it (-1 for the global one).
        vars: variables by name; ops: operators in program order.
        inputs: variables of this block that the op running it gives a value (loop variables, incoming
            gradients).
    """

    def __init__(self, program: Program, idx: int, parent_idx: int = -1) -> None:
        self.program, self.idx, self.parent_idx = program, idx, parent_idx
        self.vars: dict[str, Variable] = {}
        self.ops: list[Operator] = []
        self.inputs: list[str] = []

    @property
    def parent(self) -> Block | None:
        """The enclosing block, None for the global one."""
        return self.program.blocks[self.parent_idx] if self.parent_idx >= 0 else None

    # Variables

    def has_var(self, name: str) -> bool:
        """Whether this block itself has the variable."""
        return name in self.vars

    def var(self, name: str) -> Variable:
        """The variable of this block.

        Raises:
            NotFound: it has none of that name (`ValueError` in Paddle).
        """
        variable = self.vars.get(name)
        if variable is None:
            raise NotFound(f"block {self.idx} has no variable {name!r}.{did_you_mean(name, self.vars)}")
        return variable

    def find_var(self, name: str) -> Variable | None:
        """The variable of this block or of an enclosing one."""
        block: Block | None = self
        while block is not None:
            if name in block.vars:
                return block.vars[name]
            block = block.parent
        return None

    _find_var_recursive = find_var

    def var_recursive(self, name: str) -> Variable:
        """Like `find_var`, raising NotFound."""
        variable = self.find_var(name)
        if variable is None:
            hint = did_you_mean(name, self.vars)
            raise NotFound(f"there is no variable {name!r} in this block or around it.{hint}")
        return variable

    _var_recursive = var_recursive

    def create_var(
        self,
        name: str | None = None,
        shape: Sequence[int | None] = (),
        dtype: Any = "float32",
        kind: str = DENSE,
        persistable: bool = False,
        stop_gradient: bool = False,
        is_data: bool = False,
        need_check_feed: bool = False,
    ) -> Variable:
        """Add a variable.

        Args:
            name: `_generated_var_k` if None.
            shape: None and negative dimensions are known only when the program runs.

        Raises:
            AlreadyExists: the block has one of that name. InvalidType: no shape or dtype.
        """
        variable = Variable(
            self,
            self._new_name(generate("_generated_var") if name is None else name),
            as_shape(shape, f"variable {name!r}"),
            as_dtype(dtype),
            kind,
            persistable,
            stop_gradient,
            is_data,
            need_check_feed,
            caller(),
        )
        return self.add_var(variable)

    def create_parameter(self, name: str, shape: Sequence[int], dtype: Any, **fields: Any) -> Parameter:
        """Add a Parameter; `fields` are those of `Parameter`.

        Raises:
            AlreadyExists: the block has a variable of that name.
            InvalidArgument, InvalidType: no shape or dtype, or an unknown dimension.
        """
        dims = as_shape(shape, f"parameter {name!r}")
        if -1 in dims:
            raise InvalidArgument(f"parameter {name!r}: every dimension is a number >= 0, got {list(shape)}")
        parameter = Parameter(self, self._new_name(name), dims, as_dtype(dtype), site=caller(), **fields)
        self.add_var(parameter)
        return parameter

    def _new_name(self, name: str) -> str:
        if not isinstance(name, str):
            raise InvalidType(f"the name of a variable is a string, got {name!r}")
        if name in self.vars:
            raise AlreadyExists(f"block {self.idx} already has a variable {name!r}: {self.vars[name]!r}")
        return name

    def add_var(self, variable: Variable) -> Variable:
        """Take a variable made elsewhere."""
        self.vars[variable.name] = variable
        self.program.touch()
        return variable

    def remove_var(self, name: str) -> None:
        """Forget a variable that no operator uses any more."""
        del self.vars[name]
        self.program.touch()

    def all_parameters(self) -> list[Parameter]:
        """The Parameters in creation order."""
        return [v for v in self.vars.values() if isinstance(v, Parameter)]

    # Operators

    def append_op(
        self,
        type: str,
        inputs: Mapping[str, Names] | None = None,
        outputs: Mapping[str, Names] | None = None,
        attrs: Mapping[str, Any] | None = None,
    ) -> Operator:
        """Append an operator over existing variables, by slot.

        Outputs that were declared without a shape get the inferred one.

        Raises:
            NotFound: unknown op, slot, attribute or variable.
            InvalidArgument: the inputs do not fit, or an output is declared with another shape or dtype.
        """
        op = self.make_op(type, inputs, outputs, attrs)
        self.ops.append(op)
        self.program.touch()
        return op

    def prepend_op(self, type: str, **slots: Any) -> Operator:
        """Like `append_op`, at the front."""
        return self.insert_op(0, type, **slots)

    _prepend_op = prepend_op

    def insert_op(self, index: int, type: str, **slots: Any) -> Operator:
        """Like `append_op`, before the operator at `index`."""
        op = self.make_op(type, **slots)
        self.ops.insert(index, op)
        self.program.touch()
        return op

    _insert_op = insert_op

    def remove_op(self, index: int) -> Operator:
        """Take the operator at `index` out."""
        op = self.ops.pop(index)
        self.program.touch()
        return op

    _remove_op = remove_op

    def make_op(
        self,
        type: str,
        inputs: Mapping[str, Names] | None = None,
        outputs: Mapping[str, Names] | None = None,
        attrs: Mapping[str, Any] | None = None,
    ) -> Operator:
        """A checked operator of this block that is not in its list yet."""
        record = find_op(type)
        own = {k: v for k, v in (attrs or {}).items() if k not in (ROLE, ROLE_VAR)}
        complete = record.complete(own)
        in_names = _names_by_slot(type, record.inputs, inputs or {})
        out_names = _names_by_slot(type, record.outputs, outputs or {})
        site = caller()
        specs = infer_specs(record, self, in_names, complete, site)
        complete[ROLE] = self.program.op_role
        complete.update({k: v for k, v in (attrs or {}).items() if k in (ROLE, ROLE_VAR)})
        if self.program.op_role_var and ROLE_VAR not in complete:
            complete[ROLE_VAR] = list(self.program.op_role_var)
        op = Operator(self, type, in_names, out_names, complete, site)
        self._settle_outputs(op, specs)
        return op

    def _outputs(
        self, record: Op, names: dict[str, list[str]], specs: tuple[Any, ...]
    ) -> Iterator[tuple[str, Variable, Spec]]:
        """Slot, variable and inferred spec of every output that is wanted."""
        for slot, spec in zip(record.outputs, specs):
            inferred = spec if isinstance(spec, list) else [spec]
            for name, one in zip(names.get(slot.name, ()), inferred):
                if name != EMPTY and one is not None:
                    yield slot.name, self.var_recursive(name), one

    def _settle_outputs(self, op: Operator, specs: tuple[Any, ...]) -> None:
        """Give outputs that were declared without a shape the inferred one; the others have to agree with it."""
        inferred_outputs = list(self._outputs(op.record, op.outputs, specs))
        for slot, variable, inferred in inferred_outputs:
            if not _is_open(variable) and not agree(variable.spec, inferred):
                raise InvalidArgument(
                    f"op {op.type!r}: its output {slot} is variable {variable.name!r}, declared otherwise\n"
                    f"  expected: {inferred}\n  got:      {variable.spec}\n  at {op.site}"
                )
        for _, variable, inferred in inferred_outputs:
            if _is_open(variable):
                variable.shape, variable.dtype, variable.kind = inferred

    def add_operator(
        self,
        type: str,
        inputs: dict[str, list[str]],
        outputs: dict[str, list[str]],
        attrs: dict[str, Any],
        site: Site | None,
    ) -> Operator:
        """Append an operator whose parts are known to be right (recorders, copies, readers of files)."""
        op = Operator(self, type, inputs, outputs, attrs, site)
        self.ops.append(op)
        self.program.touch()
        return op

    def spec(self, name: str) -> Spec:
        """Shape, dtype and kind of a variable seen from this block."""
        return self.var_recursive(name).spec

    def __repr__(self) -> str:
        return f"Block({self.idx}: {len(self.vars)} variables, {len(self.ops)} ops)"

    def to_string(self, throw_on_error: bool = False, with_details: bool = False) -> str:
        """The block as text, see `framework.text.printer`."""
        return written(self, with_details=with_details)


def _is_open(variable: Variable) -> bool:
    """Whether a variable was declared without a shape, to get that of the op that writes it."""
    return variable.shape == () and not variable.persistable


def _names_by_slot(type: str, slots: Sequence[Any], given: Mapping[str, Names]) -> dict[str, list[str]]:
    known = [s.name for s in slots]
    for slot in given:
        if slot not in known:
            raise NotFound(f"op {type!r} has no slot {slot!r}; its slots are {one_of(known)}")
    return {slot: _names(type, slot, given[slot]) for slot in known if given.get(slot) is not None}


def _names(type: str, slot: str, value: Names) -> list[str]:
    values = value if isinstance(value, list | tuple) else [value]
    names = []
    for v in values:
        if not isinstance(v, Variable | str):
            raise InvalidType(f"slot {slot} of op {type!r} takes Variables or names, got {v!r}")
        names.append(v if isinstance(v, str) else v.name)
    return names
