"""GradScaler: losses scaled up, so that small gradients are not lost in half precision."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np

from workbench.errors import InvalidArgument, InvalidType, PreconditionNotMet, Unimplemented
from workbench.framework.gradmode import recording_gradients
from workbench.framework.op.infix import Infix
from workbench.framework.values.dtype import float32
from workbench.ops.math.arithmetic import MUL
from workbench.ops.math.cast import CAST
from workbench.ops.math.reductions.folds import REDUCE_ALL
from workbench.ops.math.unary import ISFINITE
from workbench.ops.tensor.creation import FILL_CONSTANT
from workbench.ops.update.gradient_clip import multiply_rows
from workbench.optimizer.optimizer import Optimizer
from workbench.optimizer.states import is_half


class GradScaler:
    """Multiplies a loss by a factor, divides the gradients by it, and leaves out updates where they are not finite.

    With `use_dynamic_loss_scaling` the factor grows while all is well and shrinks where gradients overflow.

    Args:
        enable: False makes every method pass things through.
        init_loss_scaling: the factor to begin with.
        incr_ratio, incr_every_n_steps: what it grows by, after so many good steps.
        decr_ratio, decr_every_n_nan_or_inf: what it shrinks by, after so many bad steps in a row.

    Raises:
        InvalidArgument: ratios that do not grow or shrink.

    Example:
        >>> w = wb.create_parameter([2], "float32", default_initializer=wb.nn.initializer.Constant(1.0))
        >>> optimizer = wb.optimizer.SGD(0.5, parameters=[w])
        >>> scaler = wb.amp.GradScaler(init_loss_scaling=1024)
        >>> scaler.scale((w * w).sum()).backward()
        >>> scaler.step(optimizer)
        >>> scaler.update()
        >>> w.numpy()
        array([0., 0.], dtype=float32)
    """

    def __init__(
        self,
        enable: bool = True,
        init_loss_scaling: float = 2.0**16,
        incr_ratio: float = 2.0,
        decr_ratio: float = 0.5,
        incr_every_n_steps: int = 2000,
        decr_every_n_nan_or_inf: int = 1,
        use_dynamic_loss_scaling: bool = True,
    ) -> None:
        if not incr_ratio > 1.0:
            raise InvalidArgument(f"the incr_ratio must be > 1.0, got {incr_ratio}")
        if not 0.0 < decr_ratio < 1.0:
            raise InvalidArgument(f"the decr_ratio must be between 0 and 1, got {decr_ratio}")
        self._enable, self._use_dynamic = bool(enable), bool(use_dynamic_loss_scaling)
        self._scale, self._init = float(init_loss_scaling), float(init_loss_scaling)
        self._incr_ratio, self._decr_ratio = float(incr_ratio), float(decr_ratio)
        self._incr_every, self._decr_every = int(incr_every_n_steps), int(decr_every_n_nan_or_inf)
        self._good = self._bad = 0
        self._unscaled: dict[int, bool] = {}  # whether all gradients of an optimizer were finite

    # A step

    def scale(self, var: Any) -> Any:
        """The loss times the factor.

        Raises:
            InvalidType: no tensor.
        """
        if not isinstance(var, Infix):
            raise InvalidType(f"GradScaler.scale takes a Tensor, got {var!r}")
        return var * self._scale if self._enable else var

    def unscale_(self, optimizer: Optimizer) -> None:
        """Divide the gradients of an optimizer's parameters by the factor, once before its step.

        Raises:
            PreconditionNotMet: it was done since the last `update`.
        """
        if not self._enable:
            return
        if id(optimizer) in self._unscaled:
            raise PreconditionNotMet("unscale_() has already been called on this optimizer since the last update()")
        given = [parameter for parameter in optimizer._parameter_list or () if parameter.grad is not None]
        with recording_gradients.replaced(False), _refusal_explained():
            for parameter in given:
                parameter.grad = _divided(parameter.grad, self._scale)
            self._unscaled[id(optimizer)] = all(_is_finite(parameter.grad) for parameter in given)

    def step(self, optimizer: Optimizer) -> None:
        """Update the parameters, unless a gradient is not finite."""
        if not self._enable:
            optimizer.step()
            return
        if id(optimizer) not in self._unscaled:
            self.unscale_(optimizer)
        if self._unscaled[id(optimizer)]:
            optimizer.step()

    def update(self) -> None:
        """Adapt the factor to what the steps since the last time met."""
        if not self._enable:
            return
        is_finite = all(self._unscaled.values())
        self._unscaled.clear()
        if not self._use_dynamic:
            return
        if is_finite:
            self._good, self._bad = self._good + 1, 0
            if self._good == self._incr_every:
                self._scale, self._good = self._scale * self._incr_ratio, 0
        else:
            self._good, self._bad = 0, self._bad + 1
            if self._bad == self._decr_every:
                self._scale, self._bad = max(self._scale * self._decr_ratio, 1.0), 0

    def minimize(self, optimizer: Optimizer, *args: Any, **kwargs: Any) -> Any:
        """`step` and `update`, from the gradients of a scaled loss.

        Args:
            args, kwargs: of `optimizer.minimize`: the scaled loss.

        Returns:
            what `optimizer.minimize` returns; None where the update was left out.
        """
        if not self._enable:
            return optimizer.minimize(*args, **kwargs)
        if id(optimizer) not in self._unscaled:
            self.unscale_(optimizer)
        done = optimizer.minimize(*args, **kwargs) if self._unscaled[id(optimizer)] else None
        self.update()
        return done

    # Settings

    def is_enable(self) -> bool:
        """Whether it does anything: as it was asked to. Paddle's switches itself off where there is no GPU."""
        return self._enable

    def is_use_dynamic_loss_scaling(self) -> bool:
        """Whether the factor adapts."""
        return self._use_dynamic

    def get_init_loss_scaling(self) -> float:
        """The factor it began with."""
        return self._init

    def set_init_loss_scaling(self, new_init_loss_scaling: float) -> None:
        """Begin anew with another factor."""
        self._init = self._scale = float(new_init_loss_scaling)

    def get_incr_ratio(self) -> float:
        """What the factor grows by."""
        return self._incr_ratio

    def set_incr_ratio(self, new_incr_ratio: float) -> None:
        """Have it grow by another ratio, above 1."""
        if not new_incr_ratio > 1.0:
            raise InvalidArgument(f"the new_incr_ratio must be > 1.0, got {new_incr_ratio}")
        self._incr_ratio = float(new_incr_ratio)

    def get_decr_ratio(self) -> float:
        """What the factor shrinks by."""
        return self._decr_ratio

    def set_decr_ratio(self, new_decr_ratio: float) -> None:
        """Have it shrink by another ratio, between 0 and 1."""
        if not 0.0 < new_decr_ratio < 1.0:
            raise InvalidArgument(f"the new_decr_ratio must be between 0 and 1, got {new_decr_ratio}")
        self._decr_ratio = float(new_decr_ratio)

    def get_incr_every_n_steps(self) -> int:
        """Good steps after which the factor grows."""
        return self._incr_every

    def set_incr_every_n_steps(self, new_incr_every_n_steps: int) -> None:
        """Have it grow after another number of good steps."""
        self._incr_every = int(new_incr_every_n_steps)

    def get_decr_every_n_nan_or_inf(self) -> int:
        """Bad steps in a row after which the factor shrinks."""
        return self._decr_every

    def set_decr_every_n_nan_or_inf(self, new_decr_every_n_nan_or_inf: int) -> None:
        """Have it shrink after another number of bad steps."""
        self._decr_every = int(new_decr_every_n_nan_or_inf)

    def state_dict(self) -> dict[str, Any]:
        """Factor, ratios and counts; empty where it does nothing."""
        if not self._enable:
            return {}
        return {
            "scale": np.array([self._scale], np.float32),
            "incr_ratio": self._incr_ratio,
            "decr_ratio": self._decr_ratio,
            "incr_every_n_steps": self._incr_every,
            "decr_every_n_nan_or_inf": self._decr_every,
            "incr_count": self._good,
            "decr_count": self._bad,
            "use_dynamic_loss_scaling": self._use_dynamic,
        }

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Go on from a state.

        Raises:
            InvalidArgument: something is missing; nothing is changed then.
        """
        if not self._enable:
            return
        missing = sorted(set(self.state_dict()) - set(state_dict))
        if missing:
            raise InvalidArgument(f"not a state of a GradScaler: missing {', '.join(missing)}")
        self._init = self._scale = float(np.asarray(state_dict["scale"]).reshape(-1)[0])
        self._incr_ratio, self._decr_ratio = float(state_dict["incr_ratio"]), float(state_dict["decr_ratio"])
        self._incr_every = int(state_dict["incr_every_n_steps"])
        self._decr_every = int(state_dict["decr_every_n_nan_or_inf"])
        self._good, self._bad = int(state_dict["incr_count"]), int(state_dict["decr_count"])
        self._use_dynamic = bool(state_dict["use_dynamic_loss_scaling"])


def _divided(grad: Any, scale: float) -> Any:
    """A gradient without the factor; in float32, where half precision might lose what the factor has saved."""
    if is_half(grad.dtype) and not grad.is_selected_rows():
        grad = CAST(grad, dtype=float32.name)
    factor = FILL_CONSTANT(shape=(1,), value=1.0 / scale, dtype=grad.dtype.name)
    return (multiply_rows if grad.is_selected_rows() else MUL)(grad, factor)


@contextmanager
def _refusal_explained() -> Iterator[None]:
    """Say what to do instead where a function is being recorded, which refuses what the `with` body does."""
    try:
        yield
    except Unimplemented as error:
        error.add_note(
            "GradScaler leaves out an update where a gradient is not finite, which Python decides: keep scaler.step() "
            "out of what is recorded, or use amp.auto_cast(dtype='bfloat16'), which needs no scaling"
        )
        raise


def _is_finite(grad: Any) -> bool:
    if grad.is_selected_rows():
        return bool(np.isfinite(np.asarray(grad)).all())
    return bool(REDUCE_ALL(ISFINITE(grad), reduce_all=True))
