"""ParamAttr: what a user says about one parameter of a layer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from workbench.builders.initializers.initializer import Initializer
from workbench.errors import InvalidArgument, InvalidType


class ParamAttr:
    """Name, initial value and training options of a parameter.

    Args:
        name: the parameter's name, taken verbatim; the same name used twice shares the parameter.
            None counts it under its layer, `fc_0.w_0`.
        initializer: how it is filled by the startup program; the layer's default if None.
        learning_rate: factor on the optimizer's rate.
        regularizer: replaces the optimizer's `weight_decay` for this parameter.
        trainable: False keeps it out of backward and of the optimizer.
        do_model_average: accepted for Paddle's sake; there is no model averaging to take part in.
        need_clip: False leaves its gradient out of gradient clipping.

    Raises:
        InvalidType, InvalidArgument: an argument of the wrong kind, a negative learning rate.

    Example:
        >>> wb.enable_static()
        >>> x = static.data("x", [None, 4])
        >>> y = static.nn.fc(x, 2, weight_attr=wb.ParamAttr(name="w", learning_rate=0.1))
        >>> static.default_main_program().all_parameters()[0].name
        'w'
    """

    def __init__(
        self,
        name: str | None = None,
        initializer: Initializer | None = None,
        learning_rate: float = 1.0,
        regularizer: Any = None,
        trainable: bool = True,
        do_model_average: bool = False,
        need_clip: bool = True,
    ) -> None:
        if not (name is None or isinstance(name, str)):
            raise InvalidType(f"ParamAttr takes a string or None as name, got {name!r}")
        if name == "":
            raise InvalidArgument("the name of a ParamAttr must not be empty; leave it out to have one generated")
        if not (initializer is None or isinstance(initializer, Initializer)):
            raise InvalidType(
                f"ParamAttr takes an initializer such as nn.initializer.Constant(0.0), got {initializer!r}"
            )
        if not (regularizer is None or _is_regularizer(regularizer)):
            raise InvalidType(f"ParamAttr takes a regularizer such as regularizer.L2Decay(1e-4), got {regularizer!r}")
        if isinstance(learning_rate, bool) or not isinstance(learning_rate, int | float):
            raise InvalidType(f"ParamAttr takes a number as learning_rate, got {learning_rate!r}")
        if not learning_rate >= 0:
            raise InvalidArgument(f"the learning_rate of a ParamAttr is a factor of at least 0, got {learning_rate}")
        self.name, self.initializer, self.regularizer = name, initializer, regularizer
        self.learning_rate, self.trainable = float(learning_rate), bool(trainable)
        self.do_model_average, self.need_clip = bool(do_model_average), bool(need_clip)

    def __repr__(self) -> str:
        fields = ", ".join(f"{key}={value!r}" for key, value in vars(self).items())
        return f"ParamAttr({fields})"


def _is_regularizer(value: Any) -> bool:
    return callable(getattr(value, "term", None))


def to_attr(value: Any, what: str = "param_attr") -> ParamAttr | None:
    """The ParamAttr a layer's argument stands for.

    Args:
        value: None or True (all defaults), False (no such parameter), a name, an initializer, a regularizer
            or a ParamAttr.
        what: name of the argument, for the message.

    Returns:
        None when the parameter is switched off.

    Raises:
        InvalidType: anything else.
    """
    if isinstance(value, ParamAttr):
        return value
    if value is None or value is True:
        return ParamAttr()
    if value is False:
        return None
    if isinstance(value, str):
        return ParamAttr(name=value)
    if isinstance(value, Initializer):
        return ParamAttr(initializer=value)
    if _is_regularizer(value):
        return ParamAttr(regularizer=value)
    raise InvalidType(f"{what} takes a ParamAttr, a name, an initializer, None or False, got {value!r}")


def required_attr(value: Any, what: str, layer: str) -> ParamAttr:
    """`to_attr` for a parameter the layer cannot do without.

    Raises:
        InvalidArgument: `value` is False.
    """
    attr = to_attr(value, what)
    if attr is None:
        raise InvalidArgument(f"{layer} cannot do without this parameter: {what} must not be False")
    return attr


def spread_attr(value: Any, count: int, what: str) -> list[Any]:
    """One attribute per input of a layer that takes several.

    Raises:
        InvalidArgument: a list of another length.
    """
    if not isinstance(value, Sequence) or isinstance(value, str):
        return [value] * count
    if len(value) != count:
        raise InvalidArgument(f"{what} is a list of {len(value)} for {count} inputs; give one for all, or one each")
    return list(value)
