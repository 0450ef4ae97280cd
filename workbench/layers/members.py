"""What a layer owns: parameters, buffers and sublayers, kept apart by the kind of value an attribute is set to."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from workbench.dygraph.tensor.tensor import Tensor
from workbench.errors import InvalidType, PreconditionNotMet
from workbench.framework import names
from workbench.framework.habits import attribute_here
from workbench.framework.op.infix import Infix
from workbench.framework.values.default_dtype import default_dtype
from workbench.layers.naming import require_member_name, snake_case
from workbench.layers.parameters import is_parameter, make_parameter, make_tensor


class NotInitialised(PreconditionNotMet, ValueError):
    """A layer got its first member before `super().__init__()` ran."""


class Members:
    """The members of a layer, by name, and the rules by which attributes become members.

    Setting an attribute to a parameter makes it a parameter of the layer, a layer becomes a sublayer, any other tensor
    a buffer that is not saved. A name that holds a member takes values of that kind, or None.
    """

    def __init__(self, name_scope: str | None = None, dtype: Any = "float32") -> None:
        scope = snake_case(type(self).__name__) if name_scope is None else name_scope
        vars(self).update(
            training=True,
            _full_name=names.generate(scope),
            _dtype=default_dtype().name if dtype == "float32" else dtype,  # Paddle's default argument
            _parameters={},
            _buffers={},
            _sub_layers={},
            _unsaved_buffers=set(),
        )

    def full_name(self) -> str:
        """The layer's unique name, such as `linear_0`."""
        return self._full_name

    # Attributes

    def __getattr__(self, name: str) -> Any:
        """A member; other attributes are found before this is asked."""
        own = self.__dict__  # asked for every parameter at every call: no generators here
        if "_buffers" in own:
            if name in own["_parameters"]:
                return own["_parameters"][name]
            if name in own["_sub_layers"]:
                return own["_sub_layers"][name]
            if name in own["_buffers"]:
                return own["_buffers"][name]
        raise AttributeError(
            f"{type(self).__name__!r} object has no attribute {name!r}{attribute_here(type(self), name)}"
        )

    def __setattr__(self, name: str, value: Any) -> None:
        mine = self._kind_of(name)
        table = "_sub_layers" if isinstance(value, Members) else _table_for(value, mine)
        if table is not None:
            self._take_out(name, but=table)
            self._put(table, name, value)
        elif mine is None:
            object.__setattr__(self, name, value)
        elif value is None:
            vars(self)[mine][name] = None
        else:
            kind, takes = _KINDS[mine]
            raise InvalidType(f"assignment to {kind} {name!r} should be of type {takes} or None, got {_said(value)}")

    def __delattr__(self, name: str) -> None:
        mine = self._kind_of(name)
        if mine is None:
            object.__delattr__(self, name)
            return
        del vars(self)[mine][name]
        self._unsaved_buffers.discard(name)

    def __dir__(self) -> Iterable[str]:
        return sorted({*super().__dir__(), *(name for members in self._tables() for name in members)})

    def _tables(self) -> Iterable[dict[str, Any]]:
        own = vars(self)
        return (own[table] for table in _KINDS if table in own)

    def _kind_of(self, name: str) -> str | None:
        """The table that holds a name."""
        own = vars(self)
        return next((table for table in _KINDS if name in own.get(table, ())), None)

    def _take_out(self, name: str, but: str) -> None:
        """Drop what else is called so."""
        own = vars(self)
        own.pop(name, None)
        for table in _KINDS:
            if table != but and table in own:
                own[table].pop(name, None)

    def _put(self, table: str, name: str, value: Any) -> None:
        own = vars(self)
        if table not in own:
            raise NotInitialised(f"super().__init__() should be called first, before {name!r} is set")
        if table == "_buffers" and name not in own[table]:
            self._unsaved_buffers.add(name)
        own[table][name] = value

    # Members by name

    def add_parameter(self, name: str, parameter: Any) -> Any:
        """Make `parameter` a parameter of this layer; None keeps the name for one.

        Raises:
            InvalidType: it is no parameter. UnusableName: the name is empty, holds a dot or is taken.

        Returns:
            `parameter`.
        """
        name = require_member_name("parameter", name, self, self._parameters)
        if parameter is not None and not is_parameter(parameter):
            raise InvalidType(f"the parameter to be added should be a Parameter, got {_said(parameter)}")
        self._parameters[name] = parameter
        return parameter

    def add_sublayer(self, name: str, sublayer: Any) -> Any:
        """Make `sublayer` a sublayer of this layer; None keeps the name for one.

        Raises:
            InvalidType: it is no layer, or the name is no string.

        Returns:
            `sublayer`.
        """
        if not (sublayer is None or isinstance(sublayer, Members)):
            raise InvalidType(f"add_sublayer takes a Layer, got {_said(sublayer)}")
        self._sub_layers[str(name)] = sublayer
        return sublayer

    def register_buffer(self, name: str, tensor: Any, persistable: bool = True) -> None:
        """Make `tensor` a buffer: state that is no parameter, such as a moving average.

        Args:
            tensor: None keeps the name for one.
            persistable: part of `state_dict`.

        Raises:
            InvalidType: it is no tensor. UnusableName: the name is empty, holds a dot or is taken.
        """
        name = require_member_name("buffer", name, self, self._buffers)
        if not (tensor is None or isinstance(tensor, Infix)):
            raise InvalidType(f"the registered buffer should be a Tensor, got {_said(tensor)}")
        self._buffers[name] = tensor
        (self._unsaved_buffers.discard if persistable else self._unsaved_buffers.add)(name)

    def create_parameter(
        self,
        shape: Any,
        attr: Any = None,
        dtype: Any = None,
        is_bias: bool = False,
        default_initializer: Any = None,
    ) -> Any:
        """A new parameter, `<layer>.w_k` (bias: `.b_k`); it becomes the layer's when it is assigned to an attribute.

        Args:
            shape: known dimensions.
            attr: None, a name, an initializer, a regularizer or a `ParamAttr`; False makes none.
            dtype: the layer's if None.
            is_bias: filled with 0 unless an initializer says otherwise.
            default_initializer: what fills it where `attr` names none.

        Returns:
            a Parameter, or None for `attr=False`.

        Raises:
            InvalidArgument: an unknown dimension.
        """
        return make_parameter(self._full_name, shape, attr, dtype or self._dtype, is_bias, default_initializer)

    def create_tensor(self, name: str | None = None, persistable: bool | None = None, dtype: Any = None) -> Any:
        """A new tensor without elements to speak of, for state that an op will write.

        Args:
            name: counted under the layer, `<layer>.<name>`; generated if None.
            persistable: kept between the runs of a program.
            dtype: the layer's if None.
        """
        own = names.generate("_generated_var") if name is None else name
        return make_tensor(f"{self._full_name}.{own}", dtype or self._dtype, bool(persistable))

    create_variable = create_tensor


_KINDS = {  # table of members -> (what they are called in messages, what they take)
    "_parameters": ("parameter", "Parameter"),
    "_sub_layers": ("sublayer", "Layer"),
    "_buffers": ("buffer", "Tensor"),
}


def _table_for(value: Any, mine: str | None) -> str | None:
    """Where a value that is no layer belongs, None for a plain attribute."""
    if is_parameter(value):
        return "_parameters"
    return "_buffers" if mine in (None, "_buffers") and isinstance(value, Tensor) else None


def _said(value: Any) -> str:
    return f"{type(value).__name__!r}"
