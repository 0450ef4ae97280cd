"""auto_cast: ops inside compute in half precision where that is safe."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from workbench.errors import InvalidArgument, InvalidType, PreconditionNotMet
from workbench.framework.notice import tell, tell_without_effect
from workbench.framework.op.record import Op
from workbench.framework.op.recorder import Recorder, current_recorder, recording
from workbench.framework.program.guard import in_static_mode
from workbench.framework.values.dtype import DType, as_dtype, bfloat16, float16, float32, float64
from workbench.ops.math.cast import CAST
from workbench.precision.policy import Policy

LEVELS = ("O0", "O1", "O2", "OD")


class AutoCastRecorder:
    """Converts what ops are given, then has them handled as before.

    Attributes:
        inner: who handles them. policy: what is converted.
    """

    def __init__(self, inner: Recorder, policy: Policy) -> None:
        self.inner, self.policy = inner, policy
        self.name, self.zero_dim, self.is_eager = inner.name, inner.zero_dim, inner.is_eager
        for name in ("gradients_of", "record_all_into", "average_over"):
            if hasattr(inner, name):
                setattr(self, name, getattr(inner, name))

    def record(self, op: Op, inputs: tuple[Any, ...], attrs: dict[str, Any], name: str | None) -> Any:
        dtype = self.policy.dtype_for(op, inputs)
        if dtype is not None:
            inputs = tuple([self._converted(value, dtype) for value in inputs])
        return self.inner.record(op, inputs, attrs, name)

    def record_into(self, write: Any, given: dict[str, Any]) -> Any:
        """What writes values there are keeps their dtypes."""
        return self.inner.record_into(write, given)

    def on_variables(self, function: Callable[..., Any], *given: Any) -> Any:
        """As before; what the functions among `given` apply is converted, too."""
        return self.inner.on_variables(function, *[self._inside(g) if callable(g) else g for g in given])

    def _inside(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any) -> Any:
            with recording(AutoCastRecorder(current_recorder(), self.policy)):
                return function(*args)

        return call

    def role_guard(self, role: int, pair: Sequence[Any]) -> AbstractContextManager[None]:
        """As before."""
        return self.inner.role_guard(role, pair)

    def begin_update(self, optimizer: Any, pairs: Sequence[Any]) -> None:
        """As before."""
        self.inner.begin_update(optimizer, pairs)

    def _converted(self, value: Any, dtype: DType) -> Any:
        if isinstance(value, list | tuple):
            return [self._converted(each, dtype) for each in value]
        own = getattr(value, "dtype", None)
        if own is dtype or own not in (float16, bfloat16, float32):
            return value
        return self.inner.record(CAST, (value,), {"dtype": dtype.name}, None)


@contextmanager
def auto_cast(
    enable: bool = True,
    custom_white_list: Iterable[str] | None = None,
    custom_black_list: Iterable[str] | None = None,
    level: str = "O1",
    dtype: Any = "float16",
    use_promote: bool = True,
) -> Iterator[None]:
    """Have ops in the `with` body compute in half precision where that is safe.

    Args:
        enable: False changes nothing.
        custom_white_list, custom_black_list: types of ops that do, or never do, in any case.
        level: "O1": products (matrix products, convolutions) in half precision; sums, exponentials and losses in
            float32; others as their inputs are. "O2": all but sums, exponentials and losses. "O0": nothing.
        dtype: "bfloat16", or "float16", which has no effect on a CPU.
        use_promote: False is without effect, which a notice says: operands of different precision are always promoted.

    Raises:
        InvalidArgument: an unknown level, or an op in both lists. InvalidType: no half precision.
        PreconditionNotMet: in static mode.

    Example:
        >>> x = wb.ones([2, 2])
        >>> with wb.amp.auto_cast(dtype="bfloat16"):
        ...     y = wb.matmul(x, x)
        >>> y.dtype
        workbench.bfloat16
    """
    if in_static_mode():
        raise PreconditionNotMet(
            "auto_cast works in dynamic mode; in a program cast() says where half precision begins"
        )
    kind, white, black = _checked(level, dtype, custom_white_list, custom_black_list)
    tell_without_effect("amp.auto_cast", {"use_promote": not use_promote})
    if enable and level != "O0" and kind is float16:
        tell("auto_cast(dtype='float16') has no effect on a CPU; dtype='bfloat16' has")
    if not enable or level == "O0" or kind is not bfloat16:
        yield
        return
    with recording(AutoCastRecorder(current_recorder(), Policy(kind, level == "O2", white, black))):
        yield


amp_guard = auto_cast


def _checked(level: Any, dtype: Any, white: Any, black: Any) -> tuple[DType, frozenset[str], frozenset[str]]:
    if level not in LEVELS:
        raise InvalidArgument(f"level must be one of {', '.join(LEVELS)}, got {level!r}")
    kind = as_dtype(dtype)
    if kind not in (float16, bfloat16) and not (kind in (float32, float64) and level == "O0"):
        raise InvalidType(f"auto_cast takes 'float16' or 'bfloat16' as dtype, got {dtype!r}")
    chosen, refused = frozenset(white or ()), frozenset(black or ())
    if chosen & refused:
        both = ", ".join(sorted(chosen & refused))
        raise InvalidArgument(f"{both} is in both custom_white_list and custom_black_list")
    return kind, chosen, refused
