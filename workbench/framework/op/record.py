"""The op record: everything workbench knows of an op, declared once (see `ops/`).

An op has a *type* (the name it bears in a Program), named input and output *slots*, attributes with
defaults, and rules:

    infer(*specs, **attrs)             -> Spec or tuple of Specs, one per output slot
    forward(xp, *arrays, **attrs)      -> array or tuple; `xp` is NumPy or CuPy
    grad(g, out, *inputs, **attrs)     -> gradient or tuple, one per input slot, written with public ops
    cost(*specs, **attrs)              -> Cost(flops, bytes)
    kernel(*inputs, *outputs, **attrs) -> (name, *words): the row of a compiled kernel that computes these arrays

Slots are written in one line, `"X, Y, Bias? -> Out"`: `?` marks an optional slot (its value may be None),
`*` a slot that holds a list. Arrays travel by position in slot order, attributes by keyword.

Every differentiable op owns one backward op `<type>_grad`. Its slots are the forward inputs, the forward
outputs the rule reads, and the gradients of the outputs; its outputs are the gradients of the inputs.
Its body runs the `grad` rule on arrays unless the op brings a direct body (`grad_forward`). Of an op with a row program
for its gradient, that is the direct body, and the rule is made from it (`row_rule`).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from types import ModuleType
from typing import Any, NamedTuple, Protocol

from workbench.errors import InvalidType, NotFound, did_you_mean
from workbench.framework.names import GRAD_SUFFIX
from workbench.framework.op.recorder import current_recorder
from workbench.framework.rows.program import RowProgram
from workbench.framework.values.spec import ROWS, Spec, size_of
from workbench.framework.values.views import ViewRule

SLOT_TRAITS = {
    "saved": "the gradient needs its value",
    "shape_only": "of the input only shape and dtype are read",
    "named_only": "the input only names a variable, whose value nobody has or needs; the body gets None for it",
    "no_grad": "the input never receives a gradient (labels, indices)",
    "sparse": "the input takes sparse gradients (kind `rows`) as well as dense tensors",
    "like_x": "the output has the shape of the first input (of its terms, if that is a list)",
    "same_rows": "the output has as many rows, the first dimension, as the first input",
    "replicated": "the output is the same on all devices although the inputs are not: it follows from sums over them",
    "by_products": "no gradient goes through the output: a statistic, for one",
}
"""What may be true of a slot, and what others then rely on."""

OP_TRAITS = {
    "elementwise": "the body uses only scalar functions of `xp`, one output element from one of each input",
    "product": "the work is multiplying and adding, every element of one operand with many of another; so `cost` "
    "counts it and kernels reach the processor's peak",
    "activation": "a function of one tensor that passes join, where its attributes are the defaults, with the sum or "
    "the normalisation before it",
    "layout_free": "kernels, those of the backward op too, write results with any strides if one of the last two "
    "dimensions is dense; so a plan lays them out as their readers want them",
}
"""What may be true of an op as a whole."""


class Slot(NamedTuple):
    """A named place for one value (or a list of values) of an op.

    Attributes:
        traits: names in `SLOT_TRAITS`.
        alias: of an output, the input whose buffer it may take over (an update `ParamOut` of `Param`, a reshape).
        shaped_like: of an input, the slot that has its shape and dtype; so the backward operator does not carry the
            input, as in Paddle. In the record of the backward op the other slot is one of its own.
    """

    name: str
    is_list: bool = False
    optional: bool = False
    traits: frozenset[str] = frozenset()
    alias: str = ""
    shaped_like: str = ""

    def __str__(self) -> str:
        return self.name + "*" * self.is_list + "?" * self.optional


class Cost(NamedTuple):
    """Work of one execution. `bytes` counts reads and writes of whole tensors."""

    flops: int
    bytes: int


class UpdateBody(Protocol):
    """How the op of an optimizer updates a parameter; all are declared by `ops/update/update.py`.

    Attributes:
        state: the slots of what a parameter has besides: accumulators, then powers.
        betas: attributes of which the formula gets powers; the op multiplies these once more after use.
        powers: the slots of the powers.
    """

    state: Sequence[str]
    betas: Sequence[str]
    powers: Sequence[str]

    def formula(self, xp: Any, *arrays: Any, **attrs: Any) -> tuple[Any, ...]:
        """From parameter, gradient, rate, accumulators and powers: the new parameter and accumulators, element by
        element. Kernels are made from it."""

    def touched_only(self, **attrs: Any) -> bool:
        """Whether only the rows of a sparse gradient take part."""

    def patch(self, xp: Any, *arrays: Any, **attrs: Any) -> list[Any] | None:
        """Per output slot a `rows.Patch` or a whole new value; None where a sparse gradient changes every row."""


class TemporaryArray(NamedTuple):
    """Memory that a row of a kernel needs besides its operands, as a word of that row.

    An output that nobody wants is such memory, too.
    """

    shape: tuple[Any, ...]
    dtype: Any

    @property
    def ndim(self) -> int:
        """As of an array."""
        return len(self.shape)


def parse_slots(text: str) -> tuple[Slot, ...]:
    """`"X, Y*, Bias?"` as slots."""
    slots = []
    for word in text.replace(",", " ").split():
        name = word.rstrip("*?")
        slots.append(Slot(name, "*" in word[len(name) :], "?" in word[len(name) :]))
    return tuple(slots)


def _slots_with(trait: str) -> cached_property[tuple[str, ...]]:
    """A property of `Op`: the names of the slots that have a trait."""
    return cached_property(lambda op: tuple([s.name for s in (*op.inputs, *op.outputs) if trait in s.traits]))


def _is(trait: str) -> cached_property[bool]:
    """A property of `Op`: whether it has a trait."""
    return cached_property(lambda op: trait in op.traits)


@dataclass(frozen=True, eq=False)
class Op:
    """One op. Declare it with the decorators `op` and `elementwise`, find it with `find_op`.

    Attributes:
        traits: names in `OP_TRAITS`; those of slots are in `SLOT_TRAITS`.
        view: the one output only shows the memory of the input named in `aliases` in another way; this rule of
            `framework.views` says where. `forward` returns a view whenever the rule finds one. Such an op is never run
            over its input.
        grad_view: the same of the backward op, whose output shows the gradient of the output.
        rows_form: of an op that takes dense tensors only, the op that does the same with a sparse gradient; its slots
            and attributes are the same.
        needs: what the executor hands to `forward` by keyword besides attributes: `"rng"` (a random stream),
            `"run_block"` (runs a sub-block), `"wanted"` (which outputs are asked for), `"place"`.
        grad_forward: a direct body of the backward op, `(xp, *inputs, *saved outputs, *output gradients, wanted,
            **attrs)`, tested against the rule, element-wise if the op is; `grad_infer` its infer rule where
            gradients are not dense tensors like the inputs.
        update: of the op of an optimizer, how it updates a parameter.
        kernel: `(*inputs, *outputs, **attrs)` -> the row of a kernel written for this op that computes the outputs: the
            kernel's name and its arguments in order, among them arrays as they are given and `TemporaryArray`s; or
            False where the kernel does not take such operands. It may look at shapes and dtypes of arrays, not
            at their numbers. `executors/lowering/tape/declared.py` tells what it need not look at. `grad_kernel` is
            that of the backward op.
        rows: the row program its body is, from which kernels are made; `grad_rows` that of the backward op.
        layer: key under which unnamed outputs are counted (`mean_0.tmp_0`); the type unless given.
        forward_of: for a `<type>_grad` op, the op it belongs to.
    """

    type: str
    inputs: tuple[Slot, ...]
    outputs: tuple[Slot, ...]
    forward: Callable[..., Any]
    infer: Callable[..., Any]
    attrs: dict[str, Any] = field(default_factory=dict)
    grad: Callable[..., Any] | None = None
    grad_forward: Callable[..., Any] | None = None
    grad_infer: Callable[..., Any] | None = None
    update: UpdateBody | None = None
    cost: Callable[..., Cost] | None = None
    rows_form: Op | None = None
    kernel: Callable[..., Any] | None = None
    grad_kernel: Callable[..., Any] | None = None
    needs: tuple[str, ...] = ()
    traits: frozenset[str] = frozenset()
    rows: RowProgram | None = None
    grad_rows: RowProgram | None = None
    view: ViewRule | None = None
    grad_view: ViewRule | None = None
    layer: str = ""
    doc: str = ""
    forward_of: Op | None = None

    saved = _slots_with("saved")
    shape_only = _slots_with("shape_only")
    named_only = _slots_with("named_only")
    no_grad = _slots_with("no_grad")
    sparse = _slots_with("sparse")
    like_x = _slots_with("like_x")
    same_rows = _slots_with("same_rows")
    replicated = _slots_with("replicated")
    by_products = _slots_with("by_products")

    is_elementwise = _is("elementwise")
    is_product = _is("product")
    is_activation = _is("activation")
    layout_free = _is("layout_free")

    @cached_property
    def aliases(self) -> dict[str, str]:
        """`{output slot: input slot}` where the output may take over the input's buffer."""
        return {slot.name: slot.alias for slot in self.outputs if slot.alias}

    @cached_property
    def shaped_like(self) -> dict[str, str]:
        """`{input slot: the slot that has its shape and dtype}`."""
        return {slot.name: slot.shaped_like for slot in self.inputs if slot.shaped_like}

    def __call__(self, *inputs: Any, name: str | None = None, **attrs: Any) -> Any:
        """Apply the op to tensors: appends to the current block, or computes at once.

        Args:
            inputs: one entry per input slot; missing trailing ones are None.
            name: the layer name outputs are counted under, or None.
            attrs: attributes that differ from the defaults.

        Raises:
            NotFound: an unknown attribute. InvalidArgument, InvalidType: what `infer` refuses.
        """
        if name is not None and not isinstance(name, str):
            raise InvalidType(f"{self.type}: name is a str, got {name!r}; sizes or axes are one list, as in [2, 3]")
        return current_recorder().record(self, inputs, attrs, name)

    @property
    def __doc__(self) -> str:  # type: ignore[override]
        return self.doc

    def operands(self, inputs: Mapping[str, list[str]]) -> Mapping[str, list[str]]:
        """The inputs of an operator, with names of others for those that it does not carry but for their shape."""
        pairs = self.shaped_like.items()
        absent = {slot: inputs[other] for slot, other in pairs if slot not in inputs and other in inputs}
        return {**inputs, **absent} if absent else inputs

    def form_for(self, kinds: Iterable[str]) -> Op:
        """The op that computes this for inputs of such kinds: itself, or its form for rows."""
        return self.rows_form if self.rows_form is not None and ROWS in kinds else self

    @cached_property
    def has_lists(self) -> bool:
        """True when an input slot holds a list."""
        return any(slot.is_list for slot in self.inputs)

    @property
    def grad_type(self) -> str:
        """The type of the backward op."""
        return self.type + "_grad"

    def draws(self, attrs: dict[str, Any]) -> bool:
        """Whether a run with these attributes gives random numbers; what drops out does not in a test program."""
        return "rng" in self.needs and not attrs.get("is_test")

    @property
    def is_view(self) -> bool:
        """True when the output only shows an input's memory."""
        return self.view is not None

    @property
    def backward(self) -> Op:
        """The backward op of a differentiable op."""
        return find_op(self.grad_type)

    @property
    def is_grad(self) -> bool:
        """True for a `<type>_grad` op."""
        return self.forward_of is not None

    @property
    def differentiable(self) -> bool:
        """True when the op has a gradient rule or a direct gradient body."""
        return self.grad is not None

    def every_input(self, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
        """One entry per input slot, None for those left out at the end.

        Raises:
            TypeError: too many, or one that the op cannot do without is missing.
        """
        missing = len(self.inputs) - len(inputs)
        if missing < 0:
            raise TypeError(f"op {self.type!r} takes {len(self.inputs)} inputs, got {len(inputs)}")
        if missing:
            inputs = inputs + (None,) * missing
        for slot, value in zip(self.inputs, inputs):
            if value is None and not slot.optional:
                raise TypeError(f"op {self.type!r} needs its input {slot.name}")
        return inputs

    def complete(self, attrs: dict[str, Any]) -> dict[str, Any]:
        """`attrs` with the defaults filled in; a tensor of one element becomes the number it holds.

        Raises:
            NotFound: an attribute the op does not have.
            InvalidType: a Variable, which holds a number only when the program runs.
            InvalidArgument: a tensor of several elements.
        """
        complete = {**self.attrs, **attrs}
        for key, value in attrs.items():
            if key not in self.attrs:
                raise NotFound(f"op {self.type!r} has no attribute {key!r}.{did_you_mean(key, self.attrs)}")
            if hasattr(value, "stop_gradient"):
                complete[key] = self._number(key, value)
        return complete

    def _number(self, key: str, value: Any) -> Any:
        """What a tensor stands for that is given as an attribute."""
        item = getattr(value, "item", None)
        if item is None:
            raise InvalidType(
                f"op {self.type!r}: {key} is a number that is known when the program is built, got {value!r}, which "
                "has a value only when the program runs"
            )
        return item()

    def estimate(self, ins: Sequence[Any], outs: Sequence[Any], attrs: dict[str, Any]) -> Cost:
        """Cost for the given specs; without a rule, one flop per output element and all bytes once."""
        if self.cost is not None:
            return self.cost(*ins, **attrs)
        flat_outs = list(flat(outs))
        moved = sum(max(size_of(s.shape), 0) * s.dtype.itemsize for s in [*flat(ins), *flat_outs])
        return Cost(sum(max(size_of(s.shape), 0) for s in flat_outs), moved)


def flat(values: Sequence[Any]) -> Any:
    """The values of a slot-ordered sequence, lists opened and None left out."""
    for value in values:
        if isinstance(value, (list, tuple)) and not isinstance(value, Spec):  # a union would be made anew each time
            yield from (v for v in value if v is not None)
        elif value is not None:
            yield value


LIBRARIES = ("ops", "optimizer/rules")  # folders of the package whose files declare ops
OPS: dict[str, Op] = {}
_declared_in: dict[str, ModuleType | None] = {}
_libraries: list[Callable[[], object]] = []


def load_on_demand(library: Callable[[], object]) -> None:
    """Have `library()`, an import, called when a type is looked up that nobody has declared yet, in the order given."""
    _libraries.append(library)


def look_up(type: str) -> Op | None:
    """The op of a type, None if there is none."""
    for library in _libraries:
        if type in OPS:
            break
        library()
    return OPS.get(type)


def all_ops() -> Mapping[str, Op]:
    """The ops of all libraries, and those that users have declared, by type."""
    for library in _libraries:
        library()
    return OPS


def find_op(type: str) -> Op:
    """The op of a type.

    Raises:
        NotFound: no such op; the message names the closest one.
    """
    record = OPS.get(type) or look_up(type)
    if record is None:
        raise NotFound(f"there is no op {type!r}.{did_you_mean(type, OPS)}")
    return record


def add_to_table(record: Op) -> None:
    """Have an op found by its type.

    Raises:
        ValueError: it is there already, and not from an import of the same module that failed.
    """
    if record.type in OPS and not _is_declared_again(record):
        raise ValueError(f"op {record.type!r} is declared twice")
    _declared_in[record.type] = sys.modules.get(_module_of(record))
    OPS[record.type] = record


def _is_declared_again(record: Op) -> bool:
    """Whether its module is being imported anew after an import that failed, Ctrl-C among others: that left the ops it
    had declared so far, and no module."""
    before = _declared_in.get(record.type)
    name = _module_of(record)
    return before is not None and before.__name__ == name and sys.modules.get(name) is not before


def _module_of(record: Op) -> str:
    declared = record.forward_of or record
    return declared.forward.__module__


def grad_slot(name: str) -> str:
    """The slot that holds the gradient of slot `name`."""
    return name + GRAD_SUFFIX
