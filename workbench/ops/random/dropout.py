"""Dropout: random zeros in training.

Source: Srivastava et al., "Dropout: A Simple Way to Prevent Neural Networks from Overfitting",
JMLR 15, 2014.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from workbench.errors import InvalidArgument, ShapeError
from workbench.framework.op.declare import op
from workbench.framework.values.dtype import uint8
from workbench.framework.values.spec import Shape, Spec, normalize_axis, require_float, shape_text
from workbench.ops.precision import in_float32

OFFERED = {"workbench.nn.functional": "dropout dropout2d dropout3d"}

UPSCALE, DOWNGRADE = "upscale_in_train", "downgrade_in_infer"
_MODES = {UPSCALE: UPSCALE, "downscale_in_infer": DOWNGRADE, DOWNGRADE: DOWNGRADE}  # 2.x's names, and 1.x's


def _implementation(mode: Any) -> str:
    """The op's name for a mode of `dropout`."""
    implementation = _MODES.get(mode) if isinstance(mode, str) else None
    if implementation is None:
        raise InvalidArgument(f"the mode of dropout is {UPSCALE!r} or 'downscale_in_infer', got {mode!r}")
    return implementation


def mask_shape(shape: Shape, axis: Sequence[int]) -> Shape:
    """One mask entry per element, or shared along the axes that are not listed."""
    if not axis:
        return shape
    own = {normalize_axis(a, len(shape)) for a in axis}
    return tuple(d if i in own else 1 for i, d in enumerate(shape))


def _infer(x: Spec, dropout_prob: float, dropout_implementation: str, axis: Sequence[int], **attrs: Any) -> Any:
    require_float("dropout", x)
    if not 0 <= dropout_prob <= 1:
        raise ShapeError("the dropout probability is out of range", "a number in [0, 1]", dropout_prob)
    if dropout_implementation not in (UPSCALE, DOWNGRADE):
        raise ShapeError("the mode of dropout is unknown", f"{UPSCALE!r} or {DOWNGRADE!r}", dropout_implementation)
    return x, Spec(mask_shape(x.shape, axis), uint8)


def kept_factor(dropout_prob: float, is_test: bool, dropout_implementation: str) -> float:
    """What kept elements are multiplied by."""
    if dropout_implementation == DOWNGRADE:
        return 1.0 - dropout_prob if is_test else 1.0
    return 1.0 if is_test or dropout_prob == 1 else 1.0 / (1.0 - dropout_prob)


def masked(xp: Any, x: Any, mask: Any, factor: Any) -> Any:
    """What is kept of `x`, times a number of its dtype; else 0."""
    return xp.where(mask, x * factor, factor * 0)


def through_mask(g: Any, mask: Any, factor: Any) -> Any:
    """The gradient of `masked`, of tensors as of arrays and expressions."""
    return g * (mask.astype(g.dtype) * factor)


def _rule(
    g: Any, mask: Any, dropout_prob: float, is_test: bool, dropout_implementation: str, **attrs: Any
) -> Any:  # fmt: skip
    factor = kept_factor(dropout_prob, is_test, dropout_implementation)
    return g * factor if is_test else through_mask(g, mask, factor)


@in_float32
def _back(xp: Any, x: Any, mask: Any, g: Any, g_mask: Any, wanted: Any, **attrs: Any) -> Any:
    return _rule(g, mask, **attrs)


@op(
    "dropout",
    "X -> Out, Mask",
    shaped_like={"X": "Out"},
    attrs={
        "dropout_prob": 0.5,
        "is_test": False,
        "dropout_implementation": DOWNGRADE,
        "axis": (),
        "seed": 0,
        "stream": 0,
    },
    like_x="Out",
    infer=_infer,
    grad=lambda g, out, x, **attrs: _rule(g[0], out[1], **attrs),
    grad_forward=_back,
    saved="Mask",
    shape_only="X",
    needs="rng",
)
@in_float32
def DROPOUT(
    xp: Any, x: Any, rng: Any, dropout_prob: float, is_test: bool, dropout_implementation: str,
    axis: Sequence[int], **attrs: Any,
) -> tuple[Any, Any]:  # fmt: skip
    """`x` with elements set to 0 at random, and the uint8 mask of those kept (all, in a test program)."""
    factor = x.dtype.type(kept_factor(dropout_prob, is_test, dropout_implementation))
    shape = mask_shape(x.shape, axis)
    if is_test:
        return x * factor, xp.ones(shape, "uint8")
    mask = (rng.uniform(xp, shape, "float32") >= dropout_prob).astype("uint8")
    return masked(xp, x, mask, factor), mask


def dropout(
    x: Any,
    p: float = 0.5,
    axis: int | Sequence[int] | None = None,
    training: bool = True,
    mode: str = UPSCALE,
    name: str | None = None,
) -> Any:
    """Set elements to 0 with probability `p`.

    Args:
        x: floating tensor of any shape.
        p: probability in [0, 1] of dropping an element.
        axis: the mask is drawn along these axes only and shared along the others.
        training: False passes everything; a program cloned with `for_test=True` does so too.
        mode: `"upscale_in_train"` multiplies what is kept by 1 / (1 - p) in training;
            `"downscale_in_infer"` (1.x: `"downgrade_in_infer"`) multiplies by 1 - p outside training.

    Returns:
        a tensor of the shape and dtype of `x`.

    Raises:
        InvalidArgument: `p`, `axis` or `mode` is out of range.

    Example:
        >>> print(F.dropout(wb.to_tensor([1.0, 2.0]), p=0.5, training=False).numpy())
        [1. 2.]
    """
    implementation = _implementation(mode)
    axes = () if axis is None else tuple([axis] if isinstance(axis, int) else axis)
    out, _ = DROPOUT(
        x, dropout_prob=p, is_test=not training, dropout_implementation=implementation, axis=axes, name=name
    )
    return out


def dropout2d(x: Any, p: float = 0.5, training: bool = True, data_format: str = "NCHW", name: str | None = None) -> Any:
    """Set whole channels of images to 0 with probability `p`.

    Args:
        x: `[N, C, H, W]`, or `[N, H, W, C]` for `data_format="NHWC"`.
        Others: as in `dropout`.

    Example:
        >>> print(F.dropout2d(wb.ones([1, 1, 1, 2]), training=False).numpy())
        [[[[1. 1.]]]]
    """
    return _dropped_channels("dropout2d", x, p, training, data_format, ("NCHW", "NHWC"), name)


def dropout3d(
    x: Any, p: float = 0.5, training: bool = True, data_format: str = "NCDHW", name: str | None = None
) -> Any:
    """Set whole channels of volumes to 0 with probability `p`.

    Args:
        x: `[N, C, D, H, W]`, or `[N, D, H, W, C]` for `data_format="NDHWC"`.
        Others: as in `dropout`.

    Example:
        >>> print(F.dropout3d(wb.ones([1, 1, 1, 1, 2]), training=False).numpy())
        [[[[[1. 1.]]]]]
    """
    return _dropped_channels("dropout3d", x, p, training, data_format, ("NCDHW", "NDHWC"), name)


def _dropped_channels(
    what: str, x: Any, p: float, training: bool, data_format: str, formats: tuple[str, str], name: str | None
) -> Any:
    if data_format not in formats:
        raise InvalidArgument(f"{what} takes {formats[0]!r} or {formats[1]!r} as data_format, got {data_format!r}")
    if len(x.shape) != len(data_format):
        raise ShapeError(f"{what} takes {len(data_format)} dimensions", data_format, shape_text(x.shape))
    return dropout(x, p, axis=[0, data_format.index("C")], training=training, name=name)
