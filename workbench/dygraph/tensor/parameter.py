"""Parameters of dynamic mode: tensors an optimizer may update."""

from __future__ import annotations

from typing import Any

from workbench.dygraph.tensor.tensor import Tensor

_NOTED = frozenset({"_grad", "stop_gradient", "trainable", "optimize_attr", "regularizer", "need_clip"})


class _ParameterChanges:
    """How often a gradient, or something that updates depend on, was set in a parameter, in any of them."""

    __slots__ = ("count",)

    def __init__(self) -> None:
        self.count = 0


parameter_changes = _ParameterChanges()


class _Factors(dict[str, float]):
    """`optimize_attr`, whose entries are such things, too."""

    def __setitem__(self, name: str, value: float) -> None:
        parameter_changes.count += 1
        super().__setitem__(name, value)


class EagerParamBase(Tensor):
    """A parameter: a leaf that wants a gradient, with what an optimizer has to know of it.

    Attributes:
        trainable: gets a gradient and updates; the opposite of `stop_gradient`.
        optimize_attr: `{"learning_rate": k}`, the factor on the optimizer's rate.
        regularizer: replaces the optimizer's weight decay for this parameter.
        need_clip: takes part in gradient clipping.

    Example:
        >>> w = wb.create_parameter([2, 3], "float32")
        >>> w.shape, w.stop_gradient, w.is_leaf
        ([2, 3], False, True)
    """

    __slots__ = ()

    persistable = True

    def __init__(
        self,
        array: Any,
        name: str | None = None,
        trainable: bool = True,
        optimize_attr: dict[str, float] | None = None,
        regularizer: Any = None,
        need_clip: bool = True,
        do_model_average: bool = True,
    ) -> None:
        super().__init__(array, stop_gradient=not trainable)
        self._name = name
        self.optimize_attr = optimize_attr or {"learning_rate": 1.0}
        self.regularizer, self.need_clip, self.do_model_average = regularizer, need_clip, do_model_average

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _NOTED:
            parameter_changes.count += 1
            value = _Factors(value) if name == "optimize_attr" else value
        super().__setattr__(name, value)

    @property
    def trainable(self) -> bool:
        """Whether an optimizer updates it."""
        return not self.stop_gradient

    @trainable.setter
    def trainable(self, trainable: bool) -> None:
        self.stop_gradient = not trainable

    @property
    def traits(self) -> tuple[Any, ...]:
        """What updates depend on."""
        return self.stop_gradient, dict(self.optimize_attr), self.regularizer, self.need_clip

    @property
    def is_parameter(self) -> bool:
        """True."""
        return True

    def __repr__(self) -> str:
        return f"Parameter containing:\n{super().__repr__()}"
