"""`fluid.layers`: what integers pick, with the argument names, orders and defaults of Paddle 1.x."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from workbench.builders.initializers.initializer import Constant
from workbench.builders.layer import building
from workbench.builders.nn.dense import looked_up
from workbench.errors import InvalidArgument, Unimplemented
from workbench.framework.program.variable import Variable
from workbench.framework.values.dtype import float64, int64
from workbench.ops.arguments import one_int
from workbench.ops.index.composed.labelled import LABELLED_LOOKUP, LABELLED_ONE_HOT, LARGEST
from workbench.ops.index.coordinates import scatter_nd_add
from workbench.ops.index.embedding import LOOKUP_TABLE
from workbench.ops.index.embedding import one_hot as one_hot_codes
from workbench.ops.index.label import IGNORE_INDEX
from workbench.ops.loss.cross_entropy import cross_entropy as class_losses
from workbench.ops.loss.metric import accuracy_of
from workbench.ops.math.cast import CAST
from workbench.ops.math.clip import clip
from workbench.ops.math.reductions.cumulative import CUMSUM
from workbench.ops.math.reductions.reduce import sum as sum_of
from workbench.ops.tensor.assign import assign
from workbench.ops.tensor.creation import full
from workbench.ops.tensor.join import concat
from workbench.ops.tensor.shape import reshape, unsqueeze
from workbench.ops.tensor.slicing import slice as slice_of


def cross_entropy(input: Any, label: Any, soft_label: bool = False, ignore_index: int = IGNORE_INDEX) -> Any:
    """-log of the probability each label has, not yet averaged: `[N, 1]` for `[N, C]`.

    In a program it is the few operators it is made of, where Paddle 1.8.5 has one, `cross_entropy2`: kernels run these
    together with what is around them.

    Args:
        input: probabilities, as `softmax` gives them; logits are for `softmax_with_cross_entropy`.
        label: class numbers `[N, 1]`, or probabilities of the shape of `input` with `soft_label`.
        ignore_index: labels of this value have loss 0.

    Raises:
        InvalidArgument: shapes that do not fit; when run, a label out of range.

    Example:
        >>> import workbench.fluid as fluid
        >>> p, label = fluid.data("p", [None, 3]), fluid.data("label", [None, 1], "int64")
        >>> fluid.layers.cross_entropy(p, label).shape
        (-1, 1)
    """
    losses = class_losses(
        input, label, ignore_index=ignore_index, reduction="none", soft_label=soft_label, use_softmax=False
    )
    return losses if len(losses.shape) == len(input.shape) else unsqueeze(losses, -1)


def topk(input: Any, k: int, name: str | None = None) -> Any:
    """The `k` largest entries of every row and their positions (int64), in order.

    Raises:
        InvalidArgument: `k` exceeds the last dimension.

    Example:
        >>> import workbench.fluid as fluid
        >>> [v.shape for v in fluid.layers.topk(fluid.data("x", [None, 5]), k=2)]
        [(-1, 2), (-1, 2)]
    """
    return LARGEST(input, k=one_int("topk's k", k), name=name)


def accuracy(input: Any, label: Any, k: int = 1, correct: Any = None, total: Any = None) -> Any:
    """The share of rows whose label is among the `k` largest scores; see `static.accuracy`."""
    return accuracy_of(topk, input, label, k, correct, total)


def auc(
    input: Any, label: Any, curve: str = "ROC", num_thresholds: int = 4095, topk: int = 1, slide_steps: int = 1
) -> tuple[Any, Any, list[Any]]:
    """How likely a positive sample has a higher score than a negative one, of all steps and of the last ones.

    In a program it is the operators it is made of, where Paddle 1.8.5 has `auc`; histograms of scores are persistable
    variables of the program.

    Args:
        input: probabilities of both classes `[N, 2]`. label: 0 or 1, `[N, 1]`.
        curve: only "ROC". num_thresholds: scores are told apart in steps of one by this number.
        topk: accepted for Paddle's sake. slide_steps: how many last steps the second area is of; 0: all of them.

    Returns:
        the area of all steps, float64 `[1]`; that of the last ones; and the histograms: of positive and negative
        samples in the last steps `[steps, num_thresholds + 1]`, and in all of them `[num_thresholds + 1]`.

    Raises:
        InvalidArgument: another curve, a number of thresholds or steps that is too small; when run, scores that are no
            probabilities.

    Example:
        >>> import workbench.fluid as fluid
        >>> p, label = fluid.data("p", [None, 2]), fluid.data("label", [None, 1], "int64")
        >>> area, recent, states = fluid.layers.auc(p, label)
        >>> executor = fluid.Executor()
        >>> _ = executor.run(fluid.default_startup_program())
        >>> feed = {"p": np.array([[0.2, 0.8], [0.6, 0.4], [0.3, 0.7]], np.float32), "label": np.array([[1], [0], [0]])}
        >>> executor.run(feed=feed, fetch_list=[area])[0].tolist()
        [1.0]
    """
    if curve != "ROC":
        raise InvalidArgument(f"auc is the area under the curve 'ROC', got {curve!r}")
    if num_thresholds < 1 or slide_steps < 0:
        raise InvalidArgument(f"auc takes thresholds, and 0 or more steps, got {num_thresholds} and {slide_steps}")
    with building("auc") as layer:
        bins, steps = int(num_thresholds) + 1, int(slide_steps)
        whole = [layer.global_variable((bins,), float64, Constant(0.0)) for _ in range(2)]
        recent = [layer.global_variable((max(steps, 1), bins), float64, Constant(0.0)) for _ in range(2)]
        last = slice_of(input, [1], [-1], [2])
        places = CAST(last * float(num_thresholds), dtype=int64.name)
        is_positive = CAST(label, dtype=float64.name)
        for share, total, window in zip((is_positive, 1.0 - is_positive), whole, recent, strict=True):
            batch = scatter_nd_add(full([bins], 0.0, float64), places, reshape(share, [-1]))
            assign(total + batch, total)
            kept = [slice_of(window, [0], [1], [steps])] if steps > 1 else []
            newest = unsqueeze(batch if steps else total, 0)
            assign(concat([*kept, newest], 0) if kept else newest, window)
        return _area(*whole), _area(*(sum_of(window, 0) for window in recent)), [*recent, *whole]


def _area(positive: Any, negative: Any) -> Any:
    """0 if there is only one class."""
    below = CUMSUM(negative, axis=0) - negative * 0.5
    pairs = clip(sum_of(positive) * sum_of(negative), min=1.0)
    return sum_of(positive * below) / pairs


def one_hot(input: Any, depth: int, allow_out_of_range: bool = False) -> Any:
    """Class numbers `[…, 1]` as rows of 0 and a 1, `[…, depth]`; of another last dimension, as `fluid.one_hot`.

    Raises:
        Unimplemented: `allow_out_of_range`. InvalidArgument: when run, a number out of range.
    """
    if allow_out_of_range:
        raise Unimplemented("one_hot refuses numbers out of range; allow_out_of_range is not supported")
    return LABELLED_ONE_HOT(input, depth=depth) if _has_labels(input) else one_hot_codes(input, depth)


def embedding(
    input: Variable,
    size: Sequence[int],
    is_sparse: bool = False,
    is_distributed: bool = False,
    padding_idx: int | None = None,
    param_attr: Any = None,
    dtype: Any = "float32",
) -> Variable:
    """Rows of a table `[vocabulary, width]`: `[…, width]` for ids `[…, 1]`; of another last dimension, and in all
    else, as `fluid.embedding`.

    Raises:
        InvalidArgument: `size` is not two positive ints, `padding_idx` lies outside.
        InvalidType: ids that are no integers.

    Example:
        >>> import workbench.fluid as fluid
        >>> word = fluid.data("word", [None, 1], "int64")
        >>> fluid.layers.embedding(word, size=[1000, 16]).shape, fluid.embedding(word, size=[1000, 16]).shape
        ((-1, 16), (-1, 1, 16))
    """
    op, by_rows = LABELLED_LOOKUP if _has_labels(input) else LOOKUP_TABLE, is_sparse or is_distributed
    return looked_up("embedding", op, input, size, by_rows, padding_idx, param_attr, dtype)


def _has_labels(ids: Any) -> bool:
    """Whether integers have the last dimension of 1 that they have in 1.x."""
    return len(getattr(ids, "shape", ())) > 0 and ids.shape[-1] == 1
