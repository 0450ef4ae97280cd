"""Parameter updates: one op per optimizer.

Every update is one *formula* on whole tensors that is also true element by element; running it block by block
needs next to no memory and keeps the temporaries in cache. Formulas are Paddle 2.x's. Powers of beta are
multiplied after use. Half-precision state is updated in float32 and rounded once.

A gradient may be `Rows`. Where rows without gradient would not change (SGD, Adagrad) only the rows it names
are read and written; elsewhere the result equals that of the dense gradient, unless `lazy_mode` asks for the
former.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from workbench.errors import DtypeError, ShapeError
from workbench.framework.op.declare import op
from workbench.framework.op.record import Op
from workbench.framework.values.dtype import wide_dtype
from workbench.framework.values.rows import Patch, Rows, dense
from workbench.framework.values.spec import DENSE, ROWS, Spec, require_float, same_dim, shape_text, size_of
from workbench.ops.precision import NARROW, wide

BLOCK = 16384  # elements: temporaries of 64 KiB in float32

Formula = Callable[..., tuple[Any, ...]]


def _infer(param: Spec, grad: Spec, rate: Spec, *state: Spec | None, powers: int) -> tuple[Spec | None, ...]:
    """Outputs are specified as the inputs they replace."""
    held, scalars = state[: len(state) - powers], state[len(state) - powers :]
    require_float("an optimizer", param, grad, rate, *state)
    if param.kind != DENSE or grad.kind not in (DENSE, ROWS):
        raise DtypeError("an optimizer updates a dense parameter", "dense", f"{param.kind}, gradient {grad.kind}")
    for what, spec in [("gradient", grad), *(("accumulator", s) for s in held if s is not None)]:
        if len(spec.shape) != len(param.shape) or not all(map(same_dim, spec.shape, param.shape)):
            raise ShapeError(
                f"{what} and parameter have different shapes", shape_text(param.shape), shape_text(spec.shape)
            )
    for what, one in [("learning rate", rate), *(("power of beta", s) for s in scalars)]:
        if one is None or size_of(one.shape) not in (1, -1):
            raise ShapeError(f"the {what} is one number", "[1]", shape_text(one.shape) if one else "nothing")
    return param, *state


def _each(function: Callable[[Any], Any], arrays: Sequence[Any]) -> list[Any]:
    return [None if a is None else function(a) for a in arrays]


def _flat(array: Any) -> Any:
    return array.reshape(-1)


def _part(arrays: Sequence[Any], index: Any) -> list[Any]:
    return [None if a is None else a[index] for a in arrays]


def _blocks(arrays: Sequence[Any]) -> list[slice]:
    """Slices of the flattened arrays; one for all of them where they cannot be flattened or are on a GPU."""
    given = [a for a in arrays if a is not None]
    size = given[0].size
    if size <= BLOCK or any(a.device != "cpu" or not a.flags.c_contiguous for a in given):
        return []
    return [slice(start, start + BLOCK) for start in range(0, size, BLOCK)]


class Update:
    """The body of an update op: a formula, and how it is run.

    Args:
        formula: `(xp, param, grad, rate, *accumulators, *powers, **attrs) -> (param, *accumulators)`.
        betas: names of the attributes the powers are multiplied with.
        touched_only: from the attributes, whether only the rows of a sparse gradient take part.
    """

    def __init__(self, formula: Formula, betas: Sequence[str], touched_only: Callable[..., bool]) -> None:
        self.formula, self.betas, self.touched_only = formula, betas, touched_only

    def forward(self, xp: Any, param: Any, grad: Any, rate: Any, *state: Any, **attrs: Any) -> Any:
        """New values of the parameter, its accumulators and the powers."""
        outs = _each(xp.empty_like, [param, *state])
        self.into(xp, outs, param, grad, rate, *state, **attrs)
        return outs[0] if len(outs) == 1 else tuple(outs)

    def into(self, xp: Any, outs: Sequence[Any], param: Any, grad: Any, rate: Any, *state: Any, **attrs: Any) -> None:
        """The same, into given buffers, which may be those of the inputs."""
        held, powers, scalars = self._split(param, rate, state)
        count = len(held)
        if isinstance(grad, Rows) and self.touched_only(**attrs):
            self._rows_into(xp, outs[:count], held, grad.merge(xp), scalars, attrs)
        else:
            self._dense_into(xp, outs[:count], held, dense(xp, grad), scalars, attrs)
        for out, power, beta in zip(outs[count:], powers, self.betas, strict=True):
            out[...] = wide(power) * attrs[beta]

    def patch(self, xp: Any, param: Any, grad: Any, rate: Any, *state: Any, **attrs: Any) -> list[Any] | None:
        """The new values of the rows a sparse gradient names; None where all rows change.

        Returns:
            a `Patch` for the parameter and each accumulator (None where it is absent), and the new powers.
        """
        if not (isinstance(grad, Rows) and self.touched_only(**attrs)):
            return None
        held, powers, scalars = self._split(param, rate, state)
        merged = grad.merge(xp)
        new = self._new(xp, _part(held, merged.rows), merged.values, scalars, attrs)
        patches = [
            None if old is None else Patch(merged.rows, value.astype(old.dtype, copy=False))
            for old, value in zip(held, new, strict=True)
        ]
        moved = (wide(p) * attrs[beta] for p, beta in zip(powers, self.betas, strict=True))
        return [*patches, *(new.astype(p.dtype) for new, p in zip(moved, powers, strict=True))]

    def _split(self, param: Any, rate: Any, state: Sequence[Any]) -> tuple[list[Any], Sequence[Any], list[Any]]:
        """What is held per element, the powers, and rate and powers as numbers of the working dtype."""
        count = len(state) - len(self.betas)
        held, powers = [param, *state[:count]], state[count:]
        work = "float32" if param.dtype.itemsize <= NARROW else param.dtype
        return held, powers, [a.reshape(()).astype(work) for a in (rate, *powers)]

    def _new(self, xp: Any, held: Sequence[Any], grad: Any, scalars: Sequence[Any], attrs: dict[str, Any]) -> Any:
        param, *accumulators = _each(wide, held)
        rate, *powers = scalars
        work = param.dtype
        grad = grad if grad.dtype == work else grad.astype(work)
        return self.formula(xp, param, grad, rate, *accumulators, *powers, **attrs)

    def _dense_into(self, xp: Any, outs: Any, held: Any, grad: Any, scalars: Any, attrs: dict[str, Any]) -> None:
        blocks = _blocks([*outs, *held, grad])
        if not blocks:
            _store(outs, self._new(xp, held, grad, scalars, attrs))
            return
        flat_outs, flat_held = (_each(_flat, group) for group in (outs, held))
        flat_grad = grad.reshape(-1)
        for part in blocks:
            new = self._new(xp, _part(flat_held, part), flat_grad[part], scalars, attrs)
            _store(_part(flat_outs, part), new)

    def _rows_into(self, xp: Any, outs: Any, held: Any, grad: Rows, scalars: Any, attrs: dict[str, Any]) -> None:
        new = self._new(xp, _part(held, grad.rows), grad.values, scalars, attrs)
        for out, old, value in zip(outs, held, new, strict=True):
            if out is None:
                continue
            if out is not old:
                out[...] = old
            out[grad.rows] = value


def _store(outs: Sequence[Any], values: Sequence[Any]) -> None:
    for out, value in zip(outs, values, strict=True):
        if out is not None:
            out[...] = value


def _never(**attrs: Any) -> bool:
    return False


def _always(**attrs: Any) -> bool:
    return True


def _if_lazy(lazy_mode: bool, **attrs: Any) -> bool:
    return lazy_mode


UPDATES: dict[str, Update] = {}  # by op type


def _declare(
    type: str,
    formula: Formula,
    accumulators: str = "",
    betas: Sequence[str] = (),
    touched_only: Callable[..., bool] = _never,
    attrs: dict[str, Any] | None = None,
) -> Op:
    powers = [f"{beta.capitalize()}Pow" for beta in betas]
    state = [*accumulators.split(), *powers]
    replaced = ["Param", *state]
    body = UPDATES[type] = Update(formula, betas, touched_only)
    inputs = ", ".join(["Param, Grad, LearningRate", *state])
    outputs = ", ".join(_out(name) for name in replaced)

    def infer(*specs: Any, **given: Any) -> Any:
        inferred = _infer(*specs, powers=len(powers))
        if given.get("centered") and specs[-1] is None:
            raise ShapeError("centred RMSProp needs its mean gradient", "an input MeanGrad", "nothing")
        return inferred[0] if len(inferred) == 1 else inferred

    return op(
        type,
        f"{inputs} -> {outputs}",
        sparse="Grad",
        attrs=attrs or {},
        infer=infer,
        patch=body.patch,
        aliases={_out(name).rstrip("?"): name.rstrip("?") for name in replaced},
        doc=formula.__doc__ or "",
    )(body.forward)


def _out(name: str) -> str:
    return name[:-1] + "Out?" if name.endswith("?") else name + "Out"


def _sgd(xp: Any, p: Any, g: Any, lr: Any) -> tuple[Any, ...]:
    """p -= lr g."""
    return (p - lr * g,)


def _momentum(xp: Any, p: Any, g: Any, lr: Any, v: Any, mu: float, use_nesterov: bool) -> tuple[Any, ...]:
    """v = mu v + g; p -= lr v, or lr (g + mu v) with Nesterov's acceleration."""
    v = mu * v + g
    return p - lr * (g + mu * v if use_nesterov else v), v


def _adam(
    xp: Any, p: Any, g: Any, lr: Any, m: Any, v: Any, beta1_power: Any, beta2_power: Any,
    beta1: float, beta2: float, epsilon: float, scaled_epsilon: bool, **attrs: Any,
) -> tuple[Any, ...]:  # fmt: skip
    """m = b1 m + (1 - b1) g; v = b2 v + (1 - b2) g^2; p -= lr c / (1 - b1^t) m / (sqrt(v) + eps c)

    with c = sqrt(1 - b2^t), so that epsilon is compared with the corrected moment; as it is, without `scaled_epsilon`.

    Source: Kingma and Ba, "Adam: A Method for Stochastic Optimization", ICLR 2015.
    """
    m = beta1 * m + (1 - beta1) * g
    v = beta2 * v + (1 - beta2) * (g * g)
    correction = xp.sqrt(1 - beta2_power)
    least = epsilon * correction if scaled_epsilon else epsilon
    return p - (lr * correction / (1 - beta1_power)) * (m / (xp.sqrt(v) + least)), m, v


def _adamw(
    xp: Any,
    p: Any,
    g: Any,
    lr: Any,
    *state: Any,
    coeff: float,
    lr_ratio: float,
    with_decay: bool,
    **attrs: Any,
) -> tuple[Any, ...]:
    """Adam after p -= lr coeff p: the decay takes no part in the moments.

    Source: Loshchilov and Hutter, "Decoupled Weight Decay Regularization", ICLR 2019.
    """
    lr = lr * lr_ratio
    return _adam(xp, p - (lr * coeff) * p if with_decay else p, g, lr, *state, **attrs)


def _adagrad(xp: Any, p: Any, g: Any, lr: Any, s: Any, epsilon: float) -> tuple[Any, ...]:
    """s += g^2; p -= lr g / (sqrt(s) + eps).

    Source: Duchi, Hazan and Singer, "Adaptive Subgradient Methods", JMLR 12 (2011).
    """
    s = s + g * g
    return p - lr * (g / (xp.sqrt(s) + epsilon)), s


def _rmsprop(
    xp: Any, p: Any, g: Any, lr: Any, s: Any, u: Any, mean_grad: Any,
    decay: float, epsilon: float, momentum: float, centered: bool,
) -> tuple[Any, ...]:  # fmt: skip
    """s = rho s + (1 - rho) g^2; u = mu u + lr g / sqrt(s + eps); p -= u.

    `centered` takes the squared mean gradient off s under the root.
    """
    s = decay * s + (1 - decay) * (g * g)
    spread = s
    if centered:
        mean_grad = decay * mean_grad + (1 - decay) * g
        spread = s - mean_grad * mean_grad
    u = momentum * u + lr * (g / xp.sqrt(spread + epsilon))
    return p - u, s, u, mean_grad


def _adamax(
    xp: Any,
    p: Any,
    g: Any,
    lr: Any,
    m: Any,
    n: Any,
    beta1_power: Any,
    beta1: float,
    beta2: float,
    epsilon: float,
) -> tuple[Any, ...]:
    """m = b1 m + (1 - b1) g; n = max(|g|, b2 n + eps); p -= lr / (1 - b1^t) m / n.

    Source: Kingma and Ba, "Adam", ICLR 2015, section 7.1.
    """
    m = beta1 * m + (1 - beta1) * g
    n = xp.maximum(xp.abs(g), beta2 * n + epsilon)
    return p - (lr / (1 - beta1_power)) * (m / n), m, n


def _adadelta(xp: Any, p: Any, g: Any, lr: Any, s: Any, u: Any, rho: float, epsilon: float) -> tuple[Any, ...]:
    """s = rho s + (1 - rho) g^2; d = sqrt((u + eps) / (s + eps)) g; u = rho u + (1 - rho) d^2; p -= lr d.

    Source: Zeiler, "ADADELTA: An Adaptive Learning Rate Method", 2012.
    """
    s = rho * s + (1 - rho) * (g * g)
    step = xp.sqrt((u + epsilon) / (s + epsilon)) * g
    return p - lr * step, s, rho * u + (1 - rho) * (step * step)


def lamb_direction(
    xp: Any, p: Any, g: Any, m: Any, v: Any, beta1_power: Any, beta2_power: Any,
    beta1: float, beta2: float, epsilon: float, weight_decay: float,
) -> tuple[Any, ...]:  # fmt: skip
    """m and v as in Adam, and m / (1 - b1^t) / (sqrt(v / (1 - b2^t)) + eps) + weight_decay p."""
    m = beta1 * m + (1 - beta1) * g
    v = beta2 * v + (1 - beta2) * (g * g)
    adapted = (m / (1 - beta1_power)) / (xp.sqrt(v / (1 - beta2_power)) + epsilon)
    return adapted + weight_decay * p, m, v


def _lamb(xp: Any, p: Any, g: Any, lr: Any, *state: Any, **attrs: Any) -> tuple[Any, ...]:
    """p -= lr direction, where lr was multiplied with the ratio of norms (`lamb_ratio`).

    Source: You et al., "Large Batch Optimization for Deep Learning: Training BERT in 76 minutes", ICLR 2020.
    """
    direction, m, v = lamb_direction(xp, p, g, *state, **attrs)
    return p - lr * direction, m, v


_ADAM = {"beta1": 0.9, "beta2": 0.999, "epsilon": 1e-8, "lazy_mode": False, "scaled_epsilon": True}

SGD = _declare("sgd", _sgd, touched_only=_always)
MOMENTUM = _declare("momentum", _momentum, "Velocity", attrs={"mu": 0.9, "use_nesterov": False})
ADAM = _declare("adam", _adam, "Moment1 Moment2", ("beta1", "beta2"), _if_lazy, _ADAM)
ADAMW = _declare(
    "adamw", _adamw, "Moment1 Moment2", ("beta1", "beta2"), _if_lazy,
    {**_ADAM, "coeff": 0.01, "lr_ratio": 1.0, "with_decay": True},
)  # fmt: skip
ADAGRAD = _declare("adagrad", _adagrad, "Moment", touched_only=_always, attrs={"epsilon": 1e-6})
RMSPROP = _declare(
    "rmsprop", _rmsprop, "MeanSquare Moment MeanGrad?",
    attrs={"decay": 0.9, "epsilon": 1e-10, "momentum": 0.0, "centered": False},
)  # fmt: skip
ADAMAX = _declare(
    "adamax", _adamax, "Moment InfNorm", ("beta1",), attrs={"beta1": 0.9, "beta2": 0.999, "epsilon": 1e-8}
)
ADADELTA = _declare("adadelta", _adadelta, "AvgSquaredGrad AvgSquaredUpdate", attrs={"rho": 0.95, "epsilon": 1e-6})
LAMB_ATTRS = {"beta1": 0.9, "beta2": 0.999, "epsilon": 1e-6, "weight_decay": 0.01}
LAMB = _declare("lamb", _lamb, "Moment1 Moment2", ("beta1", "beta2"), attrs=LAMB_ATTRS)


def _infer_ratio(param: Spec, grad: Spec, *state: Spec, **attrs: Any) -> Spec:
    require_float("lamb_ratio", param, grad, *state)
    return Spec((1,), wide_dtype(param.dtype))


@op(
    "lamb_ratio",
    "Param, Grad, Moment1, Moment2, Beta1Pow, Beta2Pow -> Out",
    sparse="Grad",
    attrs=LAMB_ATTRS,
    infer=_infer_ratio,
)
def LAMB_RATIO(
    xp: Any, param: Any, grad: Any, moment1: Any, moment2: Any, beta1_power: Any, beta2_power: Any, **attrs: Any
) -> Any:
    """||param|| / ||direction of LAMB's step||, in shape [1]; 1 where one of them is 0."""
    p = wide(param)
    powers = (power.reshape(()).astype(p.dtype) for power in (beta1_power, beta2_power))
    grad = dense(xp, grad).astype(p.dtype)
    direction, *_ = lamb_direction(xp, p, grad, wide(moment1), wide(moment2), *powers, **attrs)
    length, step = xp.sqrt((p * p).sum()), xp.sqrt((direction * direction).sum())
    both = (length > 0) & (step > 0)
    return xp.where(both, length / xp.where(both, step, 1), 1).astype(p.dtype).reshape(1)
