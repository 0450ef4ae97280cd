"""Parameter updates: what the ops of all optimizers share.

Every update is one *formula* on whole tensors that is also true element by element; running it block by block
needs next to no memory and keeps the temporaries in cache. The formula of an optimizer stands in its own file of
`optimizer/rules`; kernels are made from it. Powers of beta are multiplied after use. Half-precision state is updated in
float32 and rounded once.

A gradient may be `Rows`. Where rows without gradient would not change (SGD, Adagrad) only the rows it names
are read and written; elsewhere the result equals that of the dense gradient, unless an attribute such as `lazy_mode`
asks for the former.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from workbench.errors import DtypeError, ShapeError
from workbench.framework.op.declare import op
from workbench.framework.op.record import Op
from workbench.framework.values.rows import Patch, Rows, dense
from workbench.framework.values.spec import DENSE, ROWS, Spec, require_float, same_dim, shape_text, size_of
from workbench.ops.precision import NARROW, wide

BLOCK = 16384  # elements: temporaries of 64 KiB in float32

Formula = Callable[..., tuple[Any, ...]]


def update_op(
    type: str,
    state: str = "",
    *,
    betas: str = "",
    attrs: dict[str, Any] | None = None,
    touched_only: bool | Callable[..., bool] = False,
    require: Callable[..., None] | None = None,
) -> Callable[[Formula], Op]:
    """Declare the op of an optimizer; the decorated function is its formula.

        @update_op("momentum", "Velocity", attrs={"mu": 0.9})
        def MOMENTUM_UPDATE(xp, p, g, lr, v, mu):
            v = mu * v + g
            return p - lr * v, v

    The op reads the slots Param, Grad, LearningRate and those of its state, and writes ParamOut, VelocityOut …

    Args:
        type: the op's name in a Program.
        state: what a parameter has besides, in the order of the formula's arguments; `?` marks what may be absent.
        betas: attributes of which the formula gets powers, beta^t in step t counted from 1, as its last arguments. They
            are state as well: the slot of `beta1` is Beta1Pow.
        attrs: attributes and their defaults.
        touched_only: whether a sparse gradient updates only the rows that it names; may depend on the attributes.
        require: refuses `(*specs, **attrs)` that do not go together.
    """
    factors = tuple(betas.replace(",", " ").split())
    powers = [f"{beta.capitalize()}Pow" for beta in factors]
    kept = [*state.replace(",", " ").split(), *powers]
    replaced = ["Param", *kept]

    def infer(*specs: Any, **given: Any) -> Any:
        inferred = _infer(*specs, powers=len(powers))
        if require is not None:
            require(*specs, **given)
        return inferred[0] if len(inferred) == 1 else inferred

    def declare(formula: Formula) -> Op:
        body = Update(formula, [name.rstrip("?") for name in kept], factors, touched_only)
        return op(
            type,
            f"{', '.join(['Param, Grad, LearningRate', *kept])} -> {', '.join(map(_out, replaced))}",
            sparse="Grad",
            attrs=attrs or {},
            infer=infer,
            update=body,
            aliases={_out(name).rstrip("?"): name.rstrip("?") for name in replaced},
            doc=formula.__doc__ or "",
        )(body)

    return declare


def _out(name: str) -> str:
    return name[:-1] + "Out?" if name.endswith("?") else name + "Out"


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
        state: slots of the accumulators, then of the powers.
        betas: names of the attributes the powers are multiplied with.
        touched_only: whether only the rows of a sparse gradient take part; may depend on the attributes.
    """

    def __init__(
        self, formula: Formula, state: Sequence[str], betas: Sequence[str], touched_only: bool | Callable[..., bool]
    ) -> None:
        self._formula, self.state, self.betas = formula, state, betas
        self.powers = state[len(state) - len(betas) :]
        self._touched_only = touched_only
        self.__module__ = formula.__module__  # where the op is declared

    def formula(self, xp: Any, *arrays: Any, **attrs: Any) -> tuple[Any, ...]:
        """The new parameter and accumulators.

        Raises:
            TypeError: the formula returns something else.
        """
        results = self._formula(xp, *arrays, **attrs)
        kept = self.state[: len(self.state) - len(self.betas)]
        if not isinstance(results, tuple) or len(results) != 1 + len(kept):
            names = ", ".join(["Param", *kept])
            raise TypeError(f"the formula {self._formula.__name__} returns a tuple of the new {names}, got {results!r}")
        return results

    def touched_only(self, **attrs: Any) -> bool:
        """Whether only the rows of a sparse gradient take part."""
        return self._touched_only(**attrs) if callable(self._touched_only) else self._touched_only

    def __call__(self, xp: Any, param: Any, grad: Any, rate: Any, *state: Any, **attrs: Any) -> Any:
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
