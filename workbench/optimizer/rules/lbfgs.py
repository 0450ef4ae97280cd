"""L-BFGS: steps along a quasi-Newton direction, with a line search."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from workbench.errors import InvalidArgument, InvalidType
from workbench.framework.gradmode import recording_gradients
from workbench.optimizer.clip import ClipGradBase
from workbench.optimizer.optimizer import Optimizer
from workbench.optimizer.rules.line_search import strong_wolfe
from workbench.optimizer.update_rule import clipped_and_decayed

OFFERED = {"workbench.optimizer": "LBFGS"}

Closure = Callable[[], Any]
Vector = np.ndarray


class LBFGS(Optimizer):
    """Newton's method with an inverse Hessian known from the last steps alone; dynamic mode only.

    Args:
        learning_rate: length of a step along the direction, where no line is searched.
        max_iter: steps per `step()`. max_eval: evaluations per `step()`, 1.25 times as many if None.
        tolerance_grad: it ends where no element of the gradient is larger.
        tolerance_change: it ends where loss and parameters change by less.
        history_size: steps that are remembered.
        line_search_fn: None or "strong_wolfe".
        Others: see `Optimizer`.

    Source: Nocedal and Wright, "Numerical Optimization", 2nd ed., algorithms 7.4 and 7.5.

    Example:
        >>> w = wb.create_parameter([2], "float32", default_initializer=wb.nn.initializer.Constant(1.0))
        >>> optimizer = wb.optimizer.LBFGS(line_search_fn="strong_wolfe", parameters=[w])
        >>> def closure():
        ...     loss = ((w - 3) * (w - 3)).sum()
        ...     optimizer.clear_grad()
        ...     loss.backward()
        ...     return loss
        >>> loss = optimizer.step(closure)
        >>> w.numpy().round(4)
        array([3., 3.], dtype=float32)
    """

    def __init__(
        self,
        learning_rate: float = 1.0,
        max_iter: int = 20,
        max_eval: int | None = None,
        tolerance_grad: float = 1e-07,
        tolerance_change: float = 1e-09,
        history_size: int = 100,
        line_search_fn: str | None = None,
        parameters: Sequence[Any] | None = None,
        weight_decay: Any = None,
        grad_clip: ClipGradBase | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__(learning_rate, parameters, weight_decay, grad_clip, name)
        if line_search_fn not in (None, "strong_wolfe"):
            raise InvalidArgument(f"line_search_fn is None or 'strong_wolfe', got {line_search_fn!r}")
        self._max_iter, self._searches = int(max_iter), line_search_fn is not None
        self._max_eval = int(max_eval) if max_eval is not None else self._max_iter * 5 // 4
        self._tolerance_grad, self._tolerance_change = float(tolerance_grad), float(tolerance_change)
        self._history_size = int(history_size)
        self._memory = CurvatureMemory(self._history_size)
        self._direction: Vector | None = None
        self._last_gradient: Vector | None = None
        self._length, self._iterations, self._evaluations = 0.0, 0, 0

    def step(self, closure: Closure | None = None) -> Any:
        """Go on by up to `max_iter` steps.

        Args:
            closure: computes the loss, its gradients (`backward()`), and returns the loss.

        Returns:
            the loss before the first step.

        Raises:
            InvalidType: no closure.
        """
        if not callable(closure):
            raise InvalidType(f"LBFGS.step takes a function that computes loss and gradients, got {closure!r}")
        first = closure()
        loss, gradient = float(first), self._gradient()
        self._evaluations += 1
        evaluations = 1
        if np.abs(gradient).max(initial=0.0) <= self._tolerance_grad:
            return first
        for iteration in range(1, self._max_iter + 1):
            direction = self._next_direction(gradient)
            slope = float(gradient @ direction)
            if slope > -self._tolerance_change:
                break
            before, start, point = loss, gradient, self._point()
            loss, gradient, used = self._go(closure, point, direction, before, gradient, slope)
            evaluations += used
            self._evaluations += used
            self._last_gradient = start
            if iteration == self._max_iter or self._is_enough(evaluations, gradient, direction, loss - before):
                break
        return first

    def _is_enough(self, evaluations: int, gradient: Vector, direction: Vector, change: float) -> bool:
        return bool(
            evaluations >= self._max_eval
            or np.abs(gradient).max() <= self._tolerance_grad
            or np.abs(direction * self._length).max() <= self._tolerance_change
            or abs(change) < self._tolerance_change
        )

    def _next_direction(self, gradient: Vector) -> Vector:
        """The quasi-Newton direction, and in `_length` how far to go along it at first."""
        self._iterations += 1
        if self._direction is None or self._last_gradient is None:
            self._direction = -gradient
            self._length = min(1.0, 1.0 / float(np.abs(gradient).sum())) * self.get_lr()
            return self._direction
        self._memory.add(self._direction * self._length, gradient - self._last_gradient)
        self._direction, self._length = self._memory.direction(gradient), self.get_lr()
        return self._direction

    def _go(
        self, closure: Closure, point: Vector, direction: Vector, loss: float, gradient: Vector, slope: float
    ) -> tuple[float, Vector, int]:
        """Move along the direction; the loss and gradient there, and the number of evaluations."""

        def at(length: float) -> tuple[float, Vector]:
            self._move_to(point + direction * length)
            return float(closure()), self._gradient()

        if not self._searches:
            return *at(self._length), 1
        step = strong_wolfe(at, direction, self._length, loss, gradient, slope)
        self._length = step.length
        self._move_to(point + direction * step.length)
        return step.loss, step.gradient, step.evaluations

    # Parameters as one vector

    def _gradient(self) -> Vector:
        """The gradients, clipped and decayed, as one vector; zeros where there is none."""
        own = self._groups.tensors("LBFGS.step()")
        with recording_gradients.replaced(False):
            pairs = [(p, p.grad) for p in own if p.grad is not None]
            grads = {id(p): np.asarray(g) for p, _, g in clipped_and_decayed(pairs, self._settings, self._groups)}
        return np.concatenate([np.ravel(grads.get(id(p), np.zeros(p.shape, p.dtype.numpy))) for p in own])

    def _point(self) -> Vector:
        return np.concatenate([np.ravel(np.asarray(p)) for p in self._groups.tensors("LBFGS.step()")])

    def _move_to(self, point: Vector) -> None:
        start = 0
        for parameter in self._groups.tensors("LBFGS.step()"):
            end = start + parameter.size
            parameter.set_value(point[start:end].reshape(parameter.shape).astype(parameter.dtype.numpy))
            start = end

    # State

    def state_dict(self) -> dict[str, Any]:
        """Direction, gradient and history, and the counts, as arrays and numbers."""
        counters = {"func_evals": self._evaluations, "n_iter": self._iterations, "alpha": self._length}
        if self._direction is None or self._last_gradient is None:
            return {"state": counters}
        steps, changes = self._memory.arrays()
        return {
            "state": {
                **counters,
                "d": self._direction,
                "prev_flat_grad": self._last_gradient,
                "old_sks": steps,
                "old_yks": changes,
            }
        }

    def set_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Go on from a state.

        Raises:
            InvalidArgument: it is none.
        """
        state = state_dict.get("state") if isinstance(state_dict, Mapping) else None
        if not isinstance(state, Mapping) or "func_evals" not in state:
            raise InvalidArgument(f"not a state of LBFGS: {state_dict!r}")
        self._evaluations, self._iterations = int(state["func_evals"]), int(state["n_iter"])
        self._length = float(state["alpha"])
        self._memory = CurvatureMemory(self._history_size)
        self._direction = self._last_gradient = None
        if "d" in state:
            self._direction, self._last_gradient = np.asarray(state["d"]), np.asarray(state["prev_flat_grad"])
            for step, change in zip(np.asarray(state["old_sks"]), np.asarray(state["old_yks"]), strict=True):
                self._memory.add(step, change)


class CurvatureMemory:
    """How the gradient changed along the last steps: an approximation of the inverse Hessian.

    Args:
        size: how many steps are remembered.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._pairs: list[tuple[Vector, Vector, float]] = []
        self._scale = 1.0

    def add(self, step: Vector, change: Vector) -> None:
        """Remember a step along which the gradient grew."""
        curvature = float(change @ step)
        if curvature <= 1e-10:
            return
        if len(self._pairs) == self._size:
            self._pairs.pop(0)
        self._pairs.append((step, change, 1.0 / curvature))
        self._scale = curvature / float(change @ change)

    def direction(self, gradient: Vector) -> Vector:
        """Minus the inverse Hessian times a gradient, by the recursion over the steps there and back."""
        q, weights = -gradient, []
        for step, change, inverse in reversed(self._pairs):
            weight = inverse * float(step @ q)
            weights.append(weight)
            q = q - weight * change
        q = q * self._scale
        for (step, change, inverse), weight in zip(self._pairs, reversed(weights), strict=True):
            q = q + step * (weight - inverse * float(change @ q))
        return np.asarray(q)

    def arrays(self) -> tuple[Vector, Vector]:
        """The steps and the changes of the gradient, a row each."""
        return np.array([s for s, _, _ in self._pairs]), np.array([y for _, y, _ in self._pairs])
