"""`fluid.initializer`: initializers with the argument names of Paddle 1.x."""

from __future__ import annotations

from typing import Any

from workbench.builders.initializers.fans import KaimingNormal, KaimingUniform, XavierNormal, XavierUniform
from workbench.builders.initializers.initializer import Assign, Constant, Initializer, Normal, TruncatedNormal, Uniform
from workbench.errors import Unimplemented
from workbench.framework.values.dtype import DType
from workbench.framework.values.spec import Shape


class ConstantInitializer(Constant):
    """Every element is `value`; `force_cpu` is accepted for Paddle's sake.

    Example:
        >>> import workbench.fluid as fluid
        >>> attr = fluid.ParamAttr(initializer=fluid.initializer.Constant(0.5))
        >>> fluid.layers.fc(fluid.data("x", [None, 4]), 2, param_attr=attr).shape
        (-1, 2)
    """

    def __init__(self, value: float = 0.0, force_cpu: bool = False) -> None:
        super().__init__(value)


class _Seeded(Initializer):
    """One that may have a seed of its own.

    Args:
        inner: what it is otherwise. seed: 0 takes that of the startup program.
    """

    def __init__(self, inner: Initializer, seed: int) -> None:
        self.inner, self.seed = inner, int(seed)

    def op(self, shape: Shape, dtype: DType) -> tuple[str, dict[str, Any]]:
        return self.inner.op(shape, dtype)

    def __call__(self, variable: Any, block: Any = None) -> Any:
        operator = super().__call__(variable, block)
        if operator is not None and self.seed:
            operator.set_attr("seed", self.seed)
        return operator


class UniformInitializer(_Seeded):
    """Uniform on [low, high).

    Raises:
        Unimplemented: diagonal values, which would be another tensor.
    """

    def __init__(
        self, low: float = -1.0, high: float = 1.0, seed: int = 0, diag_num: int = 0, diag_step: int = 0,
        diag_val: float = 1.0,
    ) -> None:  # fmt: skip
        if diag_num:
            raise Unimplemented(f"Uniform: diag_num={diag_num} is not supported; use NumpyArrayInitializer")
        super().__init__(Uniform(low, high), seed)


class NormalInitializer(_Seeded):
    """Normal with mean `loc` and standard deviation `scale`."""

    def __init__(self, loc: float = 0.0, scale: float = 1.0, seed: int = 0) -> None:
        super().__init__(Normal(loc, scale), seed)


class TruncatedNormalInitializer(_Seeded):
    """Normal with mean `loc`, cut off two standard deviations `scale` from it."""

    def __init__(self, loc: float = 0.0, scale: float = 1.0, seed: int = 0) -> None:
        super().__init__(TruncatedNormal(loc, scale), seed)


class XavierInitializer(_Seeded):
    """Spread after both fans, see `nn.initializer.XavierUniform` and `XavierNormal`."""

    def __init__(
        self, uniform: bool = True, fan_in: float | None = None, fan_out: float | None = None, seed: int = 0
    ) -> None:
        super().__init__((XavierUniform if uniform else XavierNormal)(fan_in, fan_out), seed)


class MSRAInitializer(_Seeded):
    """Spread after the inputs, for ReLU; see `nn.initializer.KaimingUniform` and `KaimingNormal`."""

    def __init__(self, uniform: bool = True, fan_in: float | None = None, seed: int = 0) -> None:
        super().__init__((KaimingUniform if uniform else KaimingNormal)(fan_in), seed)


class NumpyArrayInitializer(Assign):
    """A copy of an array of the parameter's shape.

    Example:
        >>> import workbench.fluid as fluid
        >>> attr = fluid.ParamAttr(initializer=fluid.initializer.NumpyArrayInitializer(np.eye(4, 2)))
        >>> fluid.layers.fc(fluid.data("x", [None, 4]), 2, param_attr=attr).shape
        (-1, 2)
    """
