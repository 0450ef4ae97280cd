"""LayerBuilder: how a layer names itself, makes its parameters and appends its ops (P-2 … P-4, P-11)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import workbench.ops  # noqa: F401  (registers the ops layers are made of)
from workbench.builders.initializers.default import default_initializer
from workbench.builders.initializers.initializer import Initializer
from workbench.builders.param_attr import ParamAttr
from workbench.errors import AlreadyExists, InvalidArgument, InvalidType, PreconditionNotMet, did_you_mean
from workbench.framework import names
from workbench.framework.op.record import OPS, Op
from workbench.framework.program.block import Block
from workbench.framework.program.guard import default_main_program, default_startup_program, in_static_mode
from workbench.framework.program.undo import unchanged_on_error
from workbench.framework.program.variable import Parameter, Variable
from workbench.framework.values.dtype import DType, as_dtype
from workbench.framework.values.spec import Shape, Spec, shape_text


def require_static(what: str) -> None:
    """Raise PreconditionNotMet in dynamic mode, naming what was called."""
    if not in_static_mode():
        raise PreconditionNotMet(f"{what} builds a static Program; call workbench.enable_static() first")


@contextmanager
def building(layer_type: str, name: str | None = None) -> Iterator[LayerBuilder]:
    """A LayerBuilder; if the `with` body raises, nothing of the layer stays in the programs.

    Raises:
        PreconditionNotMet: in dynamic mode. InvalidType: `name` is neither a string nor None.
    """
    require_static(f"static.nn.{layer_type}")
    if not (name is None or isinstance(name, str)):
        raise InvalidType(f"{layer_type} takes a string or None as name, got {name!r}")
    with unchanged_on_error(default_main_program(), default_startup_program()):
        yield LayerBuilder(layer_type, name)


class LayerBuilder:
    """One layer being built in the default programs.

    Attributes:
        name: the layer's name, `fc_0`, or the user's (P-2). Pass it as `name=` to the ops of the layer.
        block: where its operators go.
    """

    def __init__(self, layer_type: str, name: str | None = None) -> None:
        self.type = layer_type
        self.name = name if name is not None else names.generate(layer_type)
        self.main, self.startup = default_main_program(), default_startup_program()

    @property
    def block(self) -> Block:
        return self.main.current_block()

    def parameter(
        self,
        attr: ParamAttr,
        shape: Sequence[int],
        dtype: Any,
        is_bias: bool = False,
        default: Initializer | None = None,
    ) -> Parameter:
        """The parameter `<layer>.w_k` (bias: `.b_k`) in both programs, or the existing one of `attr.name`.

        Args:
            default: the layer's own default initializer.

        Raises:
            InvalidArgument: an unknown dimension, or a shared name with another shape or dtype.
            AlreadyExists: the name belongs to a variable that is no parameter.
        """
        name = attr.name if attr.name is not None else self._fresh("b" if is_bias else "w")
        spec = Spec(self._known(name, shape), as_dtype(dtype))
        shared = shared_parameter(self.main.global_block(), name, spec)
        if shared is not None:
            return shared
        initializer = attr.initializer
        if initializer is None:
            initializer = _float_default(name, spec.dtype, is_bias, default)
        if shared_parameter(self.startup.global_block(), name, spec) is None:
            in_startup = _add_parameter(self.startup.global_block(), name, spec, attr)
            initializer(in_startup, self.startup.global_block())
        self.main.filled_by(self.startup)
        return _add_parameter(self.main.global_block(), name, spec, attr)

    def _known(self, name: str, shape: Sequence[int]) -> Shape:
        if any(d < 1 for d in shape):
            raise InvalidArgument(
                f"{self.type}: parameter {name!r} would have shape {shape_text(shape)}; "
                "every dimension of a parameter must be known and at least 1"
            )
        return tuple(int(d) for d in shape)

    def temporary(self, dtype: DType, shape: Shape = (), stop_gradient: bool = False) -> Variable:
        """A new variable `<layer>.tmp_k` of the current block (P-4), for `append_op`."""
        return self.block.create_var(self._fresh("tmp"), shape, dtype, stop_gradient=stop_gradient)

    def _fresh(self, suffix: str) -> str:
        """The next name of the layer that the main program does not have.

        Counters started afresh over the same program would repeat names; parameters are shared by a name the
        user gives (P-3), never by accident.
        """
        name = names.generate(f"{self.name}.{suffix}")
        while self.block.find_var(name) is not None:
            name = names.generate(f"{self.name}.{suffix}")
        return name

    def global_variable(
        self, shape: Sequence[int], dtype: Any, initializer: Initializer, name: str | None = None
    ) -> Variable:
        """A persistable variable that is no parameter, in both programs, filled by the startup program."""
        return global_variable(
            self.main.global_block(), self.startup.global_block(), name or names.generate("_generated_var"),
            shape, dtype, initializer,
        )  # fmt: skip

    def activation(self, act: str | None) -> Callable[[Variable], Variable]:
        """The op of an activation's name as a function that counts its result under this layer.

        Raises:
            InvalidArgument: no op of that name takes one tensor and gives one back.
        """
        if act is None:
            return lambda x: x
        op = activation_op(act, self.type)
        return lambda x: op(x, name=self.name)


def require_float_input(owner: str, x: Variable) -> None:
    """Raise InvalidType unless `x` has a floating dtype, which the layer's parameters take from it."""
    if not x.dtype.is_float:
        raise InvalidType(f"{owner} takes floating-point inputs, got {x!r}; cast it with .astype('float32')")


def _float_default(name: str, dtype: DType, is_bias: bool, default: Initializer | None) -> Initializer:
    if default is None and not dtype.is_float:
        raise InvalidType(
            f"parameter {name!r} of dtype {dtype} has no default initializer; give it one in its ParamAttr"
        )
    return default_initializer(is_bias, default)


def _add_parameter(block: Block, name: str, spec: Spec, attr: ParamAttr) -> Parameter:
    return block.create_parameter(
        name,
        spec.shape,
        spec.dtype,
        trainable=attr.trainable,
        regularizer=attr.regularizer,
        optimize_attr={"learning_rate": attr.learning_rate},
        need_clip=attr.need_clip,
    )


def shared_parameter(block: Block, name: str, spec: Spec) -> Parameter | None:
    """The block's parameter of that name, if it has one (P-3).

    Raises:
        InvalidArgument: it has another shape or dtype. AlreadyExists: it is no parameter.
    """
    existing = block.vars.get(name)
    if existing is None:
        return None
    where = f"\n  made at {existing.site}" if existing.site else ""
    if not isinstance(existing, Parameter):
        raise AlreadyExists(f"the parameter name {name!r} is taken by {existing!r}{where}")
    if existing.spec != spec:
        raise InvalidArgument(
            f"parameter {name!r} is shared by name, so its shape and dtype must be the same\n"
            f"  expected: {existing.spec}\n  got:      {spec}{where}"
        )
    return existing


def global_variable(
    block: Block, startup: Block, name: str, shape: Sequence[int], dtype: Any, initializer: Initializer
) -> Variable:
    """A persistable variable in `block` and in `startup`, filled by `startup`.

    Raises:
        AlreadyExists: one of the blocks has that name.
    """
    variable = block.create_var(name, shape, dtype, persistable=True, stop_gradient=True)
    block.program.filled_by(startup.program)
    initializer(startup.create_var(name, shape, dtype, persistable=True, stop_gradient=True), startup)
    return variable


def activation_op(act: Any, layer: str) -> Op:
    """The op an activation's name stands for.

    Raises:
        InvalidType: `act` is no string.
        InvalidArgument: no such activation; the message names the closest one.
    """
    if not isinstance(act, str):
        raise InvalidType(f"{layer} takes the name of an activation such as 'relu', got {act!r}")
    op = OPS.get(act)
    if op is None or not _is_activation(op):
        known = [type for type, record in OPS.items() if _is_activation(record)]
        raise InvalidArgument(f"{layer}: there is no activation {act!r}.{did_you_mean(act, known)}")
    return op


def _is_activation(op: Op) -> bool:
    required = [s for s in op.inputs if not s.optional]
    return (
        len(required) == 1 and not required[0].is_list and len(op.outputs) == 1 and op.differentiable and not op.is_grad
    )
