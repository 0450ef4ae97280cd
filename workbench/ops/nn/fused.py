"""Ops that stand for two or three others: what the passes that fuse put in their place.

Names, slots and attributes are Paddle's (`fused_batch_norm_act`, `fused_bn_add_activation`,
`fused_elemwise_add_activation`). Forward and backward run the bodies of the ops they stand for, one after the other,
so they give the same bits.

Of by-products (statistics, IntermediateOut) no gradient is taken, as in Paddle: a sum whose gradient somebody else
adds to must not be fused.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from workbench.errors import ShapeError
from workbench.framework.op.declare import op
from workbench.framework.op.record import OPS, find_op, look_up
from workbench.framework.values.spec import Spec, require_float, require_same_dtype, same_dim, shape_text
from workbench.ops.math.arithmetic import ADD
from workbench.ops.nn import activation, piecewise  # noqa: F401 (they declare the activations)
from workbench.ops.nn.norm import BATCH_NORM

STATISTICS = "MeanOut, VarianceOut, SavedMean, SavedVariance"


# An activation, with its default attributes


def is_activation(type: str) -> bool:
    """Whether it is joined with the sum before it."""
    record = look_up(type)
    return record is not None and record.is_activation


def reads_result(type: str) -> bool:
    """Whether it is an activation whose gradient reads its result, not its input; so the latter need not be kept."""
    record = look_up(type)
    return record is not None and record.is_activation and record.saved == ("Out",)


def _activated(xp: Any, act: str, x: Any) -> Any:
    record = find_op(act)
    return record.forward(xp, x, **record.attrs)


def _act_rule(act: str, g: Any, after: Any, before: Any) -> Any:
    record = find_op(act)
    assert record.grad is not None
    return record.grad(g, after, before, **record.attrs)


def _act_gradient(xp: Any, act: str, before: Any, after: Any, g: Any) -> Any:
    """What the activation's backward op gives; `before` is read only by those that do not read their result."""
    record = find_op(act)
    kept = (after,) if "Out" in record.saved else ()
    return find_op(record.grad_type).forward(xp, before, *kept, g, **record.attrs)


def _require_choice(what: str, name: str, suits: Callable[[str], bool]) -> None:
    if not suits(name):
        choices = ", ".join(type for type in sorted(OPS) if suits(type))
        raise ShapeError(f"{what} cannot be fused", f"one of {choices}", repr(name))


# batch_norm, then an activation


def _infer_bn_act(x: Spec, *channels: Spec | None, act_type: str, **attrs: Any) -> Any:
    _require_choice("act_type", act_type, reads_result)
    return BATCH_NORM.infer(x, *channels, **attrs)


def _bn_act_rule(g: Any, out: Any, *inputs: Any, act_type: str, **attrs: Any) -> Any:
    """The normal of x is not kept: activations that read their result do without it."""
    assert BATCH_NORM.grad is not None
    if g[0] is None:
        return (None,) * len(inputs)
    return BATCH_NORM.grad((_act_rule(act_type, g[0], out[0], out[0]), *g[1:]), out, *inputs, **attrs)


def _bn_act_back(xp: Any, *arrays: Any, wanted: Any, act_type: str, **attrs: Any) -> Any:
    assert BATCH_NORM.grad_forward is not None
    *inputs, y, saved_mean, saved_inverse, g_y, g_mean, g_variance, g_saved, g_inverse = arrays
    g = None if g_y is None else _act_gradient(xp, act_type, y, y, g_y)
    rest = (saved_mean, saved_inverse, g, g_mean, g_variance, g_saved, g_inverse)
    return BATCH_NORM.grad_forward(xp, *inputs, *rest, wanted=wanted, **attrs)


@op(
    "fused_batch_norm_act",
    f"X, Scale?, Bias?, Mean, Variance -> Y, {STATISTICS}",
    attrs={**BATCH_NORM.attrs, "act_type": "relu"},
    like_x="Y",
    infer=_infer_bn_act,
    grad=_bn_act_rule,
    grad_forward=_bn_act_back,
    saved="X, Scale, Y, SavedMean, SavedVariance",
    shape_only="Bias, Mean, Variance",
    no_grad="Mean, Variance",
    by_products=STATISTICS,
    aliases=dict(BATCH_NORM.aliases),
    cost=BATCH_NORM.cost,
)
def FUSED_BATCH_NORM_ACT(xp: Any, *arrays: Any, act_type: str, **attrs: Any) -> tuple[Any, ...]:
    """`batch_norm`, its Y activated."""
    y, *statistics = BATCH_NORM.forward(xp, *arrays, **attrs)
    return _activated(xp, act_type, y), *statistics


# batch_norm, plus another tensor, then an activation


def _infer_bn_add_act(x: Spec, z: Spec, *channels: Spec | None, act_type: str, **attrs: Any) -> Any:
    specs = _infer_bn_act(x, *channels, act_type=act_type, **attrs)
    require_float("fused_bn_add_activation", x, z)
    require_same_dtype("fused_bn_add_activation", x, z)
    if len(z.shape) != len(x.shape) or not all(map(same_dim, z.shape, x.shape)):
        raise ShapeError("Z has the shape of X", shape_text(x.shape), shape_text(z.shape))
    return specs


def _bn_add_act_rule(g: Any, out: Any, x: Any, z: Any, *channels: Any, act_type: str, **attrs: Any) -> tuple[Any, ...]:
    assert BATCH_NORM.grad is not None
    if g[0] is None:
        return (None,) * (2 + len(channels))
    g_sum = _act_rule(act_type, g[0], out[0], out[0])
    g_x, *g_channels = BATCH_NORM.grad((g_sum, *g[1:]), out, x, *channels, **attrs)
    return g_x, g_sum, *g_channels


def _bn_add_act_back(
    xp: Any, x: Any, z: Any, scale: Any, bias: Any, moving_mean: Any, moving_variance: Any,
    y: Any, saved_mean: Any, saved_inverse: Any, g_y: Any, *g_statistics: Any,
    wanted: Any, act_type: str, **attrs: Any,
) -> tuple[Any, ...]:  # fmt: skip
    assert BATCH_NORM.grad_forward is not None
    g = None if g_y is None else _act_gradient(xp, act_type, y, y, g_y)
    inputs = (x, scale, bias, moving_mean, moving_variance, saved_mean, saved_inverse)
    g_x, *g_channels = BATCH_NORM.grad_forward(xp, *inputs, g, *g_statistics, wanted=wanted, **attrs)
    return g_x, xp.zeros_like(z) if g is None else g, *g_channels


@op(
    "fused_bn_add_activation",
    f"X, Z, Scale?, Bias?, Mean, Variance -> Y, {STATISTICS}",
    attrs={**BATCH_NORM.attrs, "act_type": "relu"},
    like_x="Y",
    infer=_infer_bn_add_act,
    grad=_bn_add_act_rule,
    grad_forward=_bn_add_act_back,
    saved="X, Scale, Y, SavedMean, SavedVariance",
    shape_only="Z, Bias, Mean, Variance",
    no_grad="Mean, Variance",
    by_products=STATISTICS,
    aliases=dict(BATCH_NORM.aliases),
    cost=BATCH_NORM.cost,
)
def FUSED_BN_ADD_ACTIVATION(xp: Any, x: Any, z: Any, *channels: Any, act_type: str, **attrs: Any) -> tuple[Any, ...]:
    """`batch_norm` of X, plus Z, activated."""
    normal, *statistics = BATCH_NORM.forward(xp, x, *channels, **attrs)
    return _activated(xp, act_type, ADD.forward(xp, normal, z)), *statistics


# A sum, then an activation


def _infer_add_act(
    x: Spec, y: Spec, functor_list: Sequence[str], save_intermediate_out: bool
) -> tuple[Spec, Spec | None]:
    act = _activation_of(functor_list)
    if not reads_result(act) and not save_intermediate_out:
        raise ShapeError(f"the gradient of {act} reads the sum", "save_intermediate_out=True", False)
    total = ADD.infer(x, y)
    return find_op(act).infer(total, **find_op(act).attrs), total if save_intermediate_out else None


def _activation_of(functor_list: Sequence[str]) -> str:
    """The outer function comes first: activation(x + y)."""
    if len(functor_list) != 2 or functor_list[1] != ADD.type:
        raise ShapeError("functor_list names an activation of a sum", f"[activation, {ADD.type!r}]", functor_list)
    _require_choice("the activation in functor_list", functor_list[0], is_activation)
    return functor_list[0]


def _add_act_rule(g: Any, out: Any, x: Any, y: Any, functor_list: Sequence[str], save_intermediate_out: bool) -> Any:
    if g[0] is None:
        return None, None
    assert ADD.grad is not None
    after, before = out
    act = functor_list[0]
    g_sum = _act_rule(act, g[0], after, after if reads_result(act) else before)
    return ADD.grad(g_sum, before, x, y)


def _add_act_back(
    xp: Any, x: Any, y: Any, after: Any, before: Any, g: Any, g_before: Any,
    functor_list: Sequence[str], save_intermediate_out: bool, wanted: Any = None,
) -> Any:  # fmt: skip
    if g is None:
        return xp.zeros_like(x), xp.zeros_like(y)
    act = functor_list[0]
    g_sum = _act_gradient(xp, act, after if reads_result(act) else before, after, g)
    return find_op(ADD.grad_type).forward(xp, x, y, g_sum, wanted=wanted)


@op(
    "fused_elemwise_add_activation",
    "X, Y -> Out, IntermediateOut?",
    attrs={"functor_list": ("relu", "elementwise_add"), "save_intermediate_out": False},
    infer=_infer_add_act,
    grad=_add_act_rule,
    grad_forward=_add_act_back,
    saved="Out, IntermediateOut",
    shape_only="X, Y",
    traits="elementwise",
)
def FUSED_ELEMWISE_ADD_ACTIVATION(
    xp: Any, x: Any, y: Any, functor_list: Sequence[str], save_intermediate_out: bool
) -> tuple[Any, Any]:
    """The activation of x + y, and x + y itself if it is to be kept."""
    total = ADD.forward(xp, x, y)
    return _activated(xp, functor_list[0], total), total if save_intermediate_out else None
