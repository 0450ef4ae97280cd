"""Variable and Parameter: the named values of a Program."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from workbench.errors import InvalidArgument, InvalidType, Unimplemented, did_you_mean
from workbench.framework.names import grad_name
from workbench.framework.notice import tell
from workbench.framework.op.infix import Infix
from workbench.framework.op.record import find_op
from workbench.framework.op.recorder import zero_dim
from workbench.framework.program.held import held_values
from workbench.framework.program.infer import infer_specs
from workbench.framework.site import caller
from workbench.framework.values.dtype import DType
from workbench.framework.values.spec import DENSE, RAW, ROWS, Shape, Spec, require_place_for

if TYPE_CHECKING:
    from workbench.framework.op.record import Op
    from workbench.framework.program.block import Block
    from workbench.framework.program.operator import Operator
    from workbench.framework.site import Site


_FETCH = "run the program and fetch it: exe.run(program, fetch_list=[variable])"
_AT_ONCE = {  # what tensors of dynamic mode have
    "backward": "optimizer.minimize(loss), or static.append_backward(loss), appends its gradients to the program",
    "item": _FETCH,
    "tolist": _FETCH,
    "minimize": "an optimizer minimizes it, as in optimizer.SGD(0.1).minimize(loss)",
    "grad": "static.append_backward(loss) makes gradients, and fetching 'NAME@GRAD' gives one",
}

_TYPES = {ROWS: "VarType.SELECTED_ROWS", RAW: "VarType.RAW"}


class NoValue(Unimplemented, TypeError):
    """The value of a variable of a Program was asked for while the Program was built; `float()` raises TypeErrors."""


class Variable(Infix):
    """A named value of a block. It has no data; data lives in a Scope under the same name.

    Attributes:
        name: unique in its program.
        shape: tuple of ints, −1 for dimensions known only when the program runs.
        dtype: element type.
        kind: `"dense"`, `"rows"` (sparse gradient), `"stack"` (what a loop saved) or `"raw"` (no tensor).
        persistable: kept in the scope between runs.
        stop_gradient: no gradient flows through it.
        is_data: declared with `static.data`; `need_check_feed`: fed values are checked against shape and dtype.

    Example:
        >>> wb.enable_static()
        >>> x = static.data("x", [None, 4])
        >>> y = static.nn.fc(x, 2)
        >>> y.shape, str(y.dtype), y.persistable
        ((-1, 2), 'paddle.float32', False)
    """

    __slots__ = (
        "_persistable", "block", "dtype", "is_data", "kind", "name", "need_check_feed", "shape", "site",
        "stop_gradient",
    )  # fmt: skip

    def __init__(
        self,
        block: Block,
        name: str,
        shape: Shape,
        dtype: DType,
        kind: str = DENSE,
        persistable: bool = False,
        stop_gradient: bool = False,
        is_data: bool = False,
        need_check_feed: bool = False,
        site: Site | None = None,
    ) -> None:
        self.block, self.name, self.shape, self.dtype, self.kind = block, name, shape, dtype, kind
        self._persistable, self.stop_gradient = persistable, stop_gradient
        self.is_data, self.need_check_feed, self.site = is_data, need_check_feed, site

    @property
    def persistable(self) -> bool:
        return self._persistable

    @persistable.setter
    def persistable(self, value: bool) -> None:
        self._persistable = value
        self.block.program.touch()  # executors keep what they have prepared

    @property
    def spec(self) -> Spec:
        """Shape, dtype and kind in one value."""
        return Spec(self.shape, self.dtype, self.kind)

    def is_selected_rows(self) -> bool:
        """Whether it is a sparse gradient."""
        return self.kind == ROWS

    @property
    def op(self) -> Operator | None:
        """The last operator of the block that writes this variable, None for feeds and parameters."""
        for op in reversed(self.block.ops):
            if self.name in op.output_arg_names:
                return op
        return None

    @property
    def grad_name(self) -> str:
        """The name of its gradient."""
        return grad_name(self.name)

    @property
    def is_parameter(self) -> bool:
        """Whether it is a Parameter."""
        return isinstance(self, Parameter)

    def overwrite(self, op: Op, inputs: tuple[Any, ...], attrs: dict[str, Any]) -> Variable:
        """Append a one-output op that writes this variable instead of a new one.

        Raises:
            InvalidArgument: the result has another shape or dtype.
        """
        block = self.block.program.current_block()
        slots = {slot.name: value for slot, value in zip(op.inputs, inputs, strict=True)}
        spec = infer_specs(op, block, {s: [v.name] for s, v in slots.items()}, op.complete(attrs), caller())[0]
        require_place_for(spec, f"variable {self.name!r}", self.spec)
        block.append_op(op.type, inputs=slots, outputs={op.outputs[0].name: self}, attrs=attrs)
        return self

    def beside(self, by: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """What a method that writes over tensors does with a variable: it makes a new one and says so, as in Paddle."""

        def method(*args: Any, **kwargs: Any) -> Any:
            tell(f"in a program {by}() is the same as {by[:-1]}(): {self.name!r} stays as it is")
            return function(self, *args, **kwargs)

        return method

    def dim(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    ndimension = dim

    def element_size(self) -> int:
        """Bytes per element."""
        return self.dtype.itemsize

    def size(self) -> Variable:
        """The number of elements, as a variable."""
        count: Variable = find_op("size")(self, zero_dim=zero_dim())
        return count

    def cpu(self) -> Variable:
        """The variable: where its value is, the places of the executor say."""
        return self

    def cuda(self, device_id: int | None = None, blocking: bool = True) -> Variable:
        """The variable: where its value is, the places of the executor say."""
        return self

    @property
    def type(self) -> str:
        """Paddle's name for the kind of variable."""
        return _TYPES.get(self.kind, "VarType.LOD_TENSOR")

    def get_value(self, scope: Any = None) -> Any:
        """A copy of what a scope (by default the global one) holds for it, as a tensor.

        Raises:
            PreconditionNotMet: nothing; run the startup program first.
        """
        return held_values().get_value(self, scope)

    def set_value(self, value: Any, scope: Any = None) -> None:
        """Write what a scope holds for it.

        Raises:
            PreconditionNotMet: no value is there yet. ShapeError, InvalidType: another shape or dtype.
        """
        held_values().set_value(self, value, scope)

    def lod(self) -> list[list[int]]:
        """Level-of-detail offsets; always empty, variable-length sequences are not supported."""
        return []

    @property
    def lod_level(self) -> int:
        """Always 0: there are no variable-length sequences."""
        return 0

    def numpy(self) -> Any:
        """Variables have no data; raises with the way to get it."""
        raise NoValue(f"variable {self.name!r} belongs to a static Program and has no value of its own; {_FETCH}")

    def __getattr__(self, name: str) -> Any:
        """What there is not, with a way to get it; `x.relu_()` is `x.relu()`."""
        if name.endswith("_") and not name.startswith("_") and callable(getattr(type(self), name[:-1], None)):
            return self.beside(name, getattr(type(self), name[:-1]))
        if name in _AT_ONCE:
            hint = f" Variable {self.name!r} belongs to a static Program: {_AT_ONCE[name]}"
        else:
            hint = "" if name.startswith("_") else did_you_mean(name, dir(type(self)))
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}.{hint}")

    def __float__(self) -> float:
        return self.numpy()

    def __int__(self) -> int:
        return self.numpy()

    def __format__(self, how: str) -> str:
        return self.numpy() if how else str(self)

    def __bool__(self) -> bool:
        compared = self._compared()
        origin = f" ({self.op.type} of {', '.join(map(repr, compared))})" if self.op and compared else ""
        wanted = compared[0] if compared else self.name
        raise InvalidType(
            f"variable {self.name!r}{origin} has no truth value while a Program is built: it gets its value when the "
            "program runs, and `if`, `while`, `assert`, `and`, `or`, `not` and `<` in a row ask before\n"
            "  in the program:  static.nn.cond, static.nn.while_loop; logical_and, logical_or, logical_not\n"
            f"  in Python:       fetch it, and ask what comes: (value,) = exe.run(program, fetch_list=[{wanted!r}])"
        )

    def _compared(self) -> list[str]:
        """Of a truth value the variables it was made of, without the numbers written into the program."""
        op = self.op
        if op is None or self.dtype.name != "bool":
            return []
        operands = [self.block.find_var(name) for name in op.input_arg_names]
        return [one.name for one in operands if one is not None and (one.op is None or one.op.input_arg_names)]

    def __iter__(self) -> Any:
        if not self.shape or self.shape[0] < 0:
            raise InvalidType(
                f"variable {self.name!r} of shape {self.shape} cannot be iterated over: how many entries it has is "
                f"known when the program runs\n"
                "  in the program:  static.nn.while_loop\n"
                f"  in Python:       {_FETCH}"
            )
        return self._entries()

    def _entries(self) -> Iterator[Variable]:
        """Slices on the first dimension, where operators can be appended to its program."""
        for i in range(self.shape[0]):
            try:
                entry = self[i]
            except (InvalidArgument, InvalidType):
                raise NoValue(
                    f"variable {self.name!r} is a placeholder in a static Program and holds no value, so there is "
                    f"nothing to iterate over\n"
                    f"  its value:              {_FETCH}\n"
                    "  slices in the program:  iterate inside of program_guard(program), in static mode"
                ) from None
            yield entry

    def __len__(self) -> int:
        if not self.shape:
            raise InvalidType(f"variable {self.name!r} has no length: it has no dimensions")
        if self.shape[0] < 0:
            raise InvalidType(
                f"variable {self.name!r} of shape {self.shape} has no length while a Program is built: its first "
                "dimension is known when the program runs\n"
                f"  in the program:  shape({self.name})[0]\n"
                f"  in Python:       {_FETCH}, and ask what comes for its length"
            )
        return self.shape[0]

    def __contains__(self, value: Any) -> bool:
        raise InvalidType(
            f"whether something is in variable {self.name!r} has no answer while a Program is built: it gets its value "
            "when the program runs\n"
            f"  in the program:  any({self.name} == value), for static.nn.cond or to be fetched\n"
            f"  in Python:       {_FETCH}, and ask what comes"
        )

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        self.numpy()

    def __repr__(self) -> str:
        flags = "".join(
            f" {word}"
            for word, on in (
                ("data", self.is_data),
                ("persistable", self.persistable),
                ("stop_gradient", self.stop_gradient),
            )
            if on
        )
        return f"{type(self).__name__}({self.name}: {self.spec}{flags})"

    def to_string(self, throw_on_error: bool = False, with_details: bool = False) -> str:
        """One line of text; `with_details` adds where it was made."""
        return f"{self!r} at {self.site}" if with_details and self.site else repr(self)


class Parameter(Variable):
    """A persistable variable that an optimizer may update (P-11).

    Attributes:
        trainable: gets a gradient and updates.
        regularizer: replaces the optimizer's for this parameter (P-44).
        optimize_attr: `{"learning_rate": k}`, the factor on the global rate (P-46).
        need_clip: takes part in gradient clipping.
    """

    __slots__ = ("need_clip", "optimize_attr", "regularizer", "trainable")

    def __init__(
        self,
        block: Block,
        name: str,
        shape: Shape,
        dtype: DType,
        trainable: bool = True,
        regularizer: Any = None,
        optimize_attr: dict[str, float] | None = None,
        need_clip: bool = True,
        stop_gradient: bool | None = None,
        site: Site | None = None,
    ) -> None:
        stop = not trainable if stop_gradient is None else stop_gradient
        super().__init__(block, name, shape, dtype, persistable=True, stop_gradient=stop, site=site)
        self.trainable, self.regularizer, self.need_clip = trainable, regularizer, need_clip
        self.optimize_attr = dict(optimize_attr or {"learning_rate": 1.0})
