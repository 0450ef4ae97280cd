"""`fluid.layers`: what integers pick, with the argument names, orders and defaults of Paddle 1.x."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from workbench.builders.nn.dense import looked_up, tell_is_distributed
from workbench.errors import Unimplemented
from workbench.framework.program.variable import Variable
from workbench.ops.arguments import one_int
from workbench.ops.index.composed.labelled import LABELLED_LOOKUP, LABELLED_ONE_HOT, LARGEST
from workbench.ops.index.embedding import LOOKUP_TABLE
from workbench.ops.index.embedding import one_hot as one_hot_codes
from workbench.ops.index.label import IGNORE_INDEX
from workbench.ops.loss.cross_entropy import cross_entropy as class_losses
from workbench.ops.loss.metric import accuracy_of
from workbench.ops.tensor.shape import unsqueeze as with_dimensions


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
    return losses if len(losses.shape) == len(input.shape) else with_dimensions(losses, -1)


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
    tell_is_distributed(is_distributed)
    op = LABELLED_LOOKUP if _has_labels(input) else LOOKUP_TABLE
    return looked_up("embedding", op, input, size, is_sparse, padding_idx, param_attr, dtype)


def _has_labels(ids: Any) -> bool:
    """Whether integers have the last dimension of 1 that they have in 1.x."""
    return len(getattr(ids, "shape", ())) > 0 and ids.shape[-1] == 1
