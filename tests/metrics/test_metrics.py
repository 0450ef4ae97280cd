"""Metrics against scikit-learn, which counts in other ways."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn import metrics as reference

import workbench as wb
from workbench.errors import InvalidArgument, InvalidType

binary = st.lists(st.tuples(st.integers(0, 64).map(lambda k: k / 64), st.integers(0, 1)), min_size=1, max_size=40)


def in_batches(metric: Any, scores: np.ndarray, labels: np.ndarray) -> None:
    for part in np.array_split(np.arange(len(labels)), 3):
        metric.update(scores[part], labels[part].reshape(-1, 1))


@given(binary)
def test_precision_and_recall(rows: list[tuple[float, int]]) -> None:
    scores, labels = np.array([r[0] for r in rows]), np.array([r[1] for r in rows])
    precision, recall = wb.metric.Precision(), wb.metric.Recall(name="r")
    in_batches(precision, scores, labels)
    in_batches(recall, scores, labels)
    said = scores >= 0.5
    assert precision.accumulate() == pytest.approx(reference.precision_score(labels, said, zero_division=0))
    assert recall.accumulate() == pytest.approx(reference.recall_score(labels, said, zero_division=0))
    assert (precision.name(), recall.name()) == ("precision", "r")
    precision.reset()
    assert precision.accumulate() == 0.0


@given(binary)
def test_auc(rows: list[tuple[float, int]]) -> None:
    scores, labels = np.array([r[0] for r in rows]), np.array([r[1] for r in rows])
    auc = wb.metric.Auc(num_thresholds=64)
    in_batches(auc, np.stack([1 - scores, scores], axis=1), labels)
    expected = reference.roc_auc_score(labels, scores) if len(set(labels)) == 2 else 0.0
    assert auc.accumulate() == pytest.approx(expected)


@pytest.mark.parametrize("form", ["classes", "column", "one_hot"])
@pytest.mark.parametrize("wrap", [np.asarray, wb.to_tensor])
def test_accuracy(form: str, wrap: Any) -> None:
    rng = np.random.default_rng(4)
    scores, labels = rng.random((10, 4)).astype(np.float32), rng.integers(0, 4, 10)
    given_labels = {"classes": labels, "column": labels[:, None], "one_hot": np.eye(4, dtype=np.float32)[labels]}[form]
    accuracy = wb.metric.Accuracy(topk=(1, 3))
    updates = []
    for part in (slice(0, 7), slice(7, 10)):
        correct = accuracy.compute(wb.to_tensor(scores[part]), wb.to_tensor(given_labels[part]))
        updates.append(accuracy.update(wrap(np.asarray(correct))))
    expected = [
        reference.top_k_accuracy_score(labels, scores, k=1, labels=range(4)),
        reference.top_k_accuracy_score(labels, scores, k=3, labels=range(4)),
    ]
    assert accuracy.accumulate() == pytest.approx(expected)
    assert updates[1][0] == pytest.approx(np.mean(scores[7:].argmax(1) == labels[7:]))
    assert accuracy.name() == ["acc_top1", "acc_top3"] and wb.metric.Accuracy(name="a").name() == ["a"]
    accuracy.reset()
    assert accuracy.accumulate() == [0.0, 0.0]


def test_one_k_gives_a_number() -> None:
    accuracy = wb.metric.Accuracy()
    assert accuracy.update(np.array([[1.0], [0.0]])) == 0.5 == accuracy.accumulate()


def test_a_metric_of_ones_own_says_all_four_things() -> None:
    with pytest.raises(TypeError, match="abstract"):
        wb.metric.Metric()


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (
            lambda: wb.metric.Precision().update([1], [1]),
            InvalidType,
            "preds must be a numpy ndarray or Tensor, got list",
        ),
        (lambda: wb.metric.Recall().update(np.ones(2), np.ones(3)), InvalidArgument, "got 2 predictions, 3 labels"),
        (lambda: wb.metric.Auc().update(np.array([2.0]), np.array([1])), InvalidArgument, "scores from 2.0 to 2.0"),
        (lambda: wb.metric.Auc().update(np.array([0.5]), np.array([1, 1])), InvalidArgument, "got 1 rows and 2 labels"),
        (lambda: wb.metric.Accuracy(topk=0), InvalidArgument, "at least 1, got 0"),
    ],
)
def test_wrong_input_is_named(call: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        call()
