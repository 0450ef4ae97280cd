"""Parameter updates; references are scalar formulas in plain Python, run for one element after the other."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tests.ops.case import Case
from workbench.framework.values.rows import Rows

rng = np.random.default_rng(25)
P, G = rng.standard_normal((5, 3)), rng.standard_normal((5, 3))
M, V, U = rng.standard_normal((5, 3)), rng.random((5, 3)), rng.standard_normal((5, 3))
MEAN = rng.standard_normal((5, 3)) * 0.1
LR = np.array([0.1])
POWERS = [np.array([0.9**3]), np.array([0.999**3])]
SPARSE = Rows(np.array([3, 1, 3]), rng.standard_normal((3, 3)), 5)


def sgd(p: float, g: float, lr: float) -> tuple[float, ...]:
    return (p - lr * g,)


def momentum(p: float, g: float, lr: float, v: float, mu: float = 0.9, use_nesterov: bool = False) -> tuple[float, ...]:
    new = mu * v + g
    if use_nesterov:
        return p - lr * g - lr * mu * new, new
    return p - lr * new, new


def adam(
    p: float, g: float, lr: float, m: float, v: float, power1: float, power2: float,
    beta1: float = 0.9, beta2: float = 0.999, epsilon: float = 1e-8, scaled_epsilon: bool = True, **attrs: Any,
) -> tuple[float, ...]:  # fmt: skip
    """Kingma and Ba's algorithm 1, with bias-corrected moments: Paddle 2.x's formula amounts to the same.

    That of Paddle 1.8.5 adds epsilon to the root before the correction.
    """
    if not scaled_epsilon:
        epsilon /= math.sqrt(1 - power2)
    m, v = beta1 * m + (1 - beta1) * g, beta2 * v + (1 - beta2) * g * g
    m_hat, v_hat = m / (1 - power1), v / (1 - power2)
    return p - lr * m_hat / (math.sqrt(v_hat) + epsilon), m, v, power1 * beta1, power2 * beta2


def adamw(
    p: float, g: float, lr: float, *state: float,
    coeff: float = 0.01, lr_ratio: float = 1.0, with_decay: bool = True, **attrs: Any,
) -> tuple[float, ...]:  # fmt: skip
    moved, *rest = adam(p, g, lr * lr_ratio, *state, **attrs)
    return moved - (lr * lr_ratio * coeff * p if with_decay else 0.0), *rest


def adagrad(p: float, g: float, lr: float, s: float, epsilon: float = 1e-6) -> tuple[float, ...]:
    s += g**2
    return p - lr * g / (math.sqrt(s) + epsilon), s


def rmsprop(
    p: float, g: float, lr: float, s: float, u: float, mean: float | None = None,
    decay: float = 0.9, epsilon: float = 1e-10, momentum: float = 0.0, centered: bool = False,
) -> tuple[Any, ...]:  # fmt: skip
    s = decay * s + (1 - decay) * g**2
    if not centered:
        u = momentum * u + lr * g / math.sqrt(s + epsilon)
        return p - u, s, u, mean
    mean = decay * mean + (1 - decay) * g
    u = momentum * u + lr * g / math.sqrt(s - mean**2 + epsilon)
    return p - u, s, u, mean


def adamax(
    p: float, g: float, lr: float, m: float, n: float, power: float,
    beta1: float = 0.9, beta2: float = 0.999, epsilon: float = 1e-8,
) -> tuple[float, ...]:  # fmt: skip
    m, n = beta1 * m + (1 - beta1) * g, max(abs(g), beta2 * n + epsilon)
    return p - lr / (1 - power) * m / n, m, n, power * beta1


def adadelta(
    p: float, g: float, lr: float, s: float, u: float, rho: float = 0.95, epsilon: float = 1e-6
) -> tuple[float, ...]:
    s = rho * s + (1 - rho) * g**2
    step = math.sqrt(u + epsilon) / math.sqrt(s + epsilon) * g
    return p - lr * step, s, rho * u + (1 - rho) * step**2


def lamb(
    p: float, g: float, lr: float, m: float, v: float, power1: float, power2: float,
    beta1: float = 0.9, beta2: float = 0.999, epsilon: float = 1e-6, weight_decay: float = 0.01,
) -> tuple[float, ...]:  # fmt: skip
    """An Adam step with decay: the ratio of norms is part of the rate."""
    moved, *rest = adam(p, g, lr, m, v, power1, power2, beta1, beta2, epsilon)
    return moved - lr * weight_decay * p, *rest


def lamb_ratio(p: np.ndarray, g: Any, *state: np.ndarray, **attrs: Any) -> np.ndarray:
    """Norms of the parameter and of a step with rate 1."""
    moved = by_element(lamb, 2, 2)(p, g, np.ones(1), *state, **attrs)[0]
    return np.array([np.linalg.norm(p) / np.linalg.norm(p - moved)])


def by_element(
    scalar: Callable[..., tuple[Any, ...]], held: int, powers: int = 0, touched_only: bool = False
) -> Callable[..., tuple[Any, ...]]:
    """A reference that runs `scalar` for every element of the parameter.

    Args:
        held: number of accumulators. powers: number of powers of beta after them.
        touched_only: with a sparse gradient, leave rows it does not name as they are.
    """

    def ref(p: np.ndarray, g: Any, lr: np.ndarray, *state: Any, **attrs: Any) -> tuple[Any, ...]:
        arrays = [None if a is None else a.copy() for a in (p, *state[:held])]
        scalars = [float(a[0]) for a in state[held:]]
        grad, rows = dense_with_rows(g)
        new: tuple[Any, ...] = ()
        for place in np.ndindex(p.shape):
            old = [None if a is None else float(a[place]) for a in arrays]
            new = scalar(old[0], float(grad[place]), float(lr[0]), *old[1:], *scalars, **attrs)
            if touched_only and place[0] not in rows:
                continue
            for a, value in zip(arrays, new, strict=False):
                if a is not None:
                    a[place] = value
        return *arrays, *([np.array([v]) for v in new[len(new) - powers :]] if powers else [])

    return ref


def dense_with_rows(g: Any) -> tuple[np.ndarray, set[int]]:
    if not isinstance(g, Rows):
        return g, set(range(len(g)))
    out = np.zeros(g.shape)
    for row, value in zip(g.rows, g.values, strict=True):
        out[row] += value
    return out, set(g.rows.tolist())


def update(type: str, inputs: list[Any], ref: Callable[..., Any], id: str = "", **attrs: Any) -> Case:
    tol = {"float32": (1e-5, 1e-5), "float16": (5e-3, 5e-3)}
    dtypes = ("float32", "float64", "float16", "bfloat16")
    return Case(type, inputs, attrs, ref, dtypes=dtypes, tol=tol, size0=False, id=id)


SGD, MOMENTUM = by_element(sgd, 0), by_element(momentum, 1)
ADAM, LAZY_ADAM = by_element(adam, 2, 2), by_element(adam, 2, 2, touched_only=True)
ADAMW, LAZY_ADAMW = by_element(adamw, 2, 2), by_element(adamw, 2, 2, touched_only=True)
ADAGRAD, RMSPROP, ADAMAX = by_element(adagrad, 1), by_element(rmsprop, 3), by_element(adamax, 2, 1)
ADADELTA, LAMB = by_element(adadelta, 2), by_element(lamb, 2, 2)
BIG = [rng.standard_normal((150, 131)) for _ in range(2)]  # more than one block of elements


def clipped(g: Rows, min: float = -1.0, max: float = 1.0) -> np.ndarray:
    return np.vectorize(lambda v: sorted((min, v, max))[1])(dense_with_rows(g)[0])


CASES = [
    update("sgd", [P, G, LR], SGD),
    update("sgd", [P, SPARSE, LR], SGD, "rows"),
    update("sgd", [BIG[0], BIG[1], LR], SGD, "blocks"),
    update("momentum", [P, G, LR, M], MOMENTUM),
    update("momentum", [P, G, LR, M], MOMENTUM, "nesterov", mu=0.8, use_nesterov=True),
    update("momentum", [P, SPARSE, LR, M], MOMENTUM, "rows move all of it"),
    update("adam", [P, G, LR, M, V, *POWERS], ADAM),
    update("adam", [P, G, LR, M, V, *POWERS], ADAM, "large epsilon", epsilon=0.5, beta1=0.8, beta2=0.95),
    update("adam", [P, G, LR, M, V, *POWERS], ADAM, "epsilon as it is", epsilon=0.5, scaled_epsilon=False),
    update("adam", [P, SPARSE, LR, M, V, *POWERS], ADAM, "rows"),
    update("adam", [P, SPARSE, LR, M, V, *POWERS], LAZY_ADAM, "lazy rows", lazy_mode=True),
    update("adam", [P, G, LR, M, V, *POWERS], ADAM, "lazy, dense gradient", lazy_mode=True),
    update("adamw", [P, G, LR, M, V, *POWERS], ADAMW),
    update("adamw", [P, G, LR, M, V, *POWERS], ADAMW, "ratio", coeff=0.3, lr_ratio=0.5),
    update("adamw", [P, G, LR, M, V, *POWERS], ADAMW, "without decay", with_decay=False),
    update("adamw", [P, SPARSE, LR, M, V, *POWERS], ADAMW, "rows"),
    update("adamw", [P, SPARSE, LR, M, V, *POWERS], LAZY_ADAMW, "lazy rows", lazy_mode=True),
    update("adagrad", [P, G, LR, V], ADAGRAD),
    update("adagrad", [P, SPARSE, LR, V], ADAGRAD, "rows", epsilon=0.1),
    update("rmsprop", [P, G, LR, V, U], RMSPROP),
    update("rmsprop", [P, G, LR, V, U], RMSPROP, "momentum", momentum=0.9, decay=0.95, epsilon=1e-6),
    update("rmsprop", [P, G, LR, V + 0.2, U, MEAN], RMSPROP, "centred", centered=True, momentum=0.5),
    update("rmsprop", [P, SPARSE, LR, V, U], RMSPROP, "rows", momentum=0.9),
    update("adamax", [P, G, LR, M, V, POWERS[0]], ADAMAX),
    update("adamax", [P, SPARSE, LR, M, V, POWERS[0]], ADAMAX, "rows"),
    update("adadelta", [P, G, LR, V, U**2], ADADELTA),
    update("adadelta", [P, SPARSE, LR, V, U**2], ADADELTA, "rows", rho=0.8, epsilon=0.1),
    update("lamb", [P, G, LR, M, V, *POWERS], LAMB),
    update("lamb", [P, SPARSE, LR, M, V, *POWERS], LAMB, "rows", weight_decay=0.3),
    update("lamb_ratio", [P, G, M, V, *POWERS], lamb_ratio, weight_decay=0.3),
    update("lamb_ratio", [P, SPARSE, M, V, *POWERS], lamb_ratio, "rows"),
    Case(
        "clip_by_norm",
        [SPARSE],
        {"max_norm": 0.5},
        lambda g, max_norm: g.to_dense(np) * (max_norm / np.linalg.norm(g.to_dense(np))),
        id="rows",
        size0=False,
    ),
    Case(
        "squared_l2_norm",
        [SPARSE],
        {},
        lambda g: np.array([np.sum(g.to_dense(np) ** 2)]),
        id="rows",
        grad=False,
        size0=False,
    ),
    Case("multiply_rows", [SPARSE, np.array([0.3])], {}, lambda g, f: dense_with_rows(g)[0] * f[0], size0=False),
    Case("scale_rows", [SPARSE], {"scale": 0.3}, lambda g, scale: dense_with_rows(g)[0] * scale, size0=False),
    Case("clip_rows", [SPARSE], {"min": -0.4, "max": 0.2}, clipped, size0=False),
    Case("clip_rows", [SPARSE], {"min": 0.1, "max": 0.5}, clipped, size0=False, id="moves the zeros"),
]
