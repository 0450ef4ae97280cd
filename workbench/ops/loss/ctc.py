"""Connectionist temporal classification: the likelihood of labels whose places in a sequence are not known.

Source: Graves, Fernández, Gomez and Schmidhuber, "Connectionist Temporal Classification", ICML 2006.
"""

from __future__ import annotations

from typing import Any

from workbench.errors import ShapeError
from workbench.framework.values.spec import shape_text
from workbench.ops.index.along_axis import take_along_axis
from workbench.ops.loss.reduction import require_reduction
from workbench.ops.loss.softmax import log_softmax
from workbench.ops.math.clip import clip
from workbench.ops.math.compare import logical_and, where
from workbench.ops.math.reductions.folds import logsumexp
from workbench.ops.math.reductions.reduce import mean
from workbench.ops.math.reductions.reduce import sum as reduce_sum
from workbench.ops.tensor.creation import full_like
from workbench.ops.tensor.join import concat, stack, unbind
from workbench.ops.tensor.shape import reshape, unsqueeze

OFFERED = {"workbench.nn.functional": "ctc_loss"}

IMPOSSIBLE = -1e30  # the logarithm of 0, finite so that differences of two are no NaN


def ctc_loss(
    log_probs: Any,
    labels: Any,
    input_lengths: Any,
    label_lengths: Any,
    blank: int = 0,
    reduction: str = "mean",
    norm_by_times: bool = False,
) -> Any:
    """-log of the probability that a sequence, blanks and repetitions dropped, reads as its labels.

    Args:
        log_probs: scores `[time, batch, classes]` before the softmax, of a known length.
        labels: `[batch, length]`, integers; what lies behind a sample's own length is of no account.
        input_lengths, label_lengths: `[batch]`, integers.
        blank: the class that stands for no label.
        reduction: "mean" (each loss over its number of labels, then the mean), "sum" or "none" (`[batch]`).
        norm_by_times: divide the gradient by the sample's length; not served.

    Raises:
        InvalidArgument: shapes that do not fit, or an unknown reduction; when run, a label out of range.

    Example:
        >>> scores, labels = wb.zeros([2, 1, 2]), wb.to_tensor([[1]])
        >>> loss = F.ctc_loss(scores, labels, wb.to_tensor([2]), wb.to_tensor([1]), reduction="none")
        >>> print(np.exp(-loss.numpy()).round(3))
        [0.75]
    """
    require_reduction(reduction)
    if len(log_probs.shape) != 3 or log_probs.shape[0] < 1 or len(labels.shape) != 2:
        got = f"{shape_text(log_probs.shape)} and {shape_text(labels.shape)}"
        raise ShapeError("ctc_loss takes scores and labels", "[time, batch, classes] and [batch, length]", got)
    labels, label_lengths = labels.astype("int64"), label_lengths.astype("int64")
    states = _with_blanks(labels, blank)
    ends = _last_states(log_softmax(log_probs), states, input_lengths.astype("int64"), blank)
    lengths = unsqueeze(label_lengths, 1)
    in_blank = take_along_axis(ends, lengths * 2, 1)
    in_label = take_along_axis(ends, clip(lengths * 2 - 1, min=0), 1)
    in_label = where(lengths > 0, in_label, full_like(in_label, IMPOSSIBLE))
    loss = -logsumexp(concat([in_blank, in_label], axis=1), axis=1)
    if reduction == "mean":
        return mean(loss / clip(label_lengths, min=1).astype(loss.dtype))
    return reduce_sum(loss) if reduction == "sum" else loss


def _with_blanks(labels: Any, blank: int) -> Any:
    """Labels with a blank before, between and behind them, `[batch, 2 length + 1]`."""
    blanks = full_like(labels, blank)
    pairs = reshape(stack([blanks, labels], axis=2), [0, -1])
    return concat([pairs, full_like(pairs[:, :1], blank)], axis=1)


def _last_states(scores: Any, states: Any, lengths: Any, blank: int) -> Any:
    """log of the probability of every state at the end of each sample, `[batch, states]`."""
    told = unbind(take_along_axis(scores, unsqueeze(states, 0), 2), 0)
    two_before = concat([full_like(states[:, :2], blank), states[:, :-2]], axis=1)
    skips = logical_and(states != blank, states != two_before)  # a label may follow another without a blank
    first = told[0]
    log = concat([first[:, :2], full_like(first[:, 2:], IMPOSSIBLE)], axis=1)
    for t, now in enumerate(told[1:], start=1):
        one, two = (_moved(log, by) for by in (1, 2))
        ways = stack([log, one, where(skips, two, full_like(two, IMPOSSIBLE))], axis=2)
        log = where(unsqueeze(lengths > t, 1), logsumexp(ways, axis=2) + now, log)
    return log


def _moved(log: Any, by: int) -> Any:
    """Every state's value at the state `by` further on."""
    return concat([full_like(log[:, :by], IMPOSSIBLE), log[:, :-by]], axis=1)
