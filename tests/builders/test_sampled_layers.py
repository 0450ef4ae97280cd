"""`static.nn.nce`, `sparse_embedding`, `row_conv` and what Paddle has for sequences of varying length."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.builders.building import Session, program
from workbench.errors import Unimplemented
from workbench.facade import STATIC_NN
from workbench.framework.notice import Notice

static = wb.static
SHARES = [0.05, 0.5, 0.1, 0.3, 0.05]


@pytest.mark.parametrize("sampler", ["uniform", "log_uniform", "custom_dist"])
def test_nce_draws_by_its_shares_in_every_step(sampler: str) -> None:
    with program() as (main, startup):
        x, label = static.data("x", [None, 3]), static.data("label", [None, 1], "int64")
        static.nn.nce(x, label, 5, num_neg_samples=40, sampler=sampler, custom_dist=SHARES)
    drawn = next(op for op in main.global_block().ops if op.type == "nce").outputs["SampleLabels"]
    session = Session(main, startup)
    feed = {"x": np.ones((500, 3), np.float32), "label": np.full((500, 1), 4)}
    first, second = (session.run(drawn, **feed)[0] for _ in range(2))
    assert first.shape == (500, 41) and (first[:, 0] == 4).all()
    assert not np.array_equal(first, second)
    expected = {
        "uniform": [0.2] * 5,
        "log_uniform": [np.log((k + 2) / (k + 1)) / np.log(5) for k in range(4)] + [0],
        "custom_dist": SHARES,
    }[sampler]
    shares = np.bincount(first[:, 1:].ravel(), minlength=5) / first[:, 1:].size
    np.testing.assert_allclose(shares, expected, atol=0.02)


@pytest.mark.parametrize("is_sparse", [False, True])
def test_nce_learns_the_class(is_sparse: bool) -> None:
    """The class with the largest logit is the right one after some steps, sparse or not alike."""
    with program(seed=3) as (main, startup):
        main.random_seed = 3
        x, label = static.data("x", [None, 4]), static.data("label", [None, 1], "int64")
        loss = wb.mean(static.nn.nce(x, label, 6, num_neg_samples=8, is_sparse=is_sparse))
        wb.optimizer.SGD(1.0).minimize(loss)
    session = Session(main, startup)
    labels = np.arange(24) % 4
    for _ in range(60):
        session.run([loss], x=np.eye(4, dtype=np.float32)[labels], label=labels[:, None])
    w, b = (session.value(p.name) for p in main.all_parameters())
    assert (w @ np.eye(4) + b).argmax(0).tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sampler": "normal"}, "'uniform', 'log_uniform', 'custom_dist'"),
        ({"sampler": "custom_dist"}, "for each of 5 classes"),
        ({"sampler": "custom_dist", "custom_dist": [1.0]}, "for each of 5 classes"),
        ({"sampler": "custom_dist", "custom_dist": [0.5] * 5}, "add up to 1"),
        ({"num_neg_samples": 0}, "one that is drawn"),
        ({"input": "label"}, "dtype|float"),
    ],
)
def test_what_nce_refuses(options: dict[str, Any], message: str) -> None:
    with program(), pytest.raises((TypeError, ValueError), match=message):
        x, label = static.data("x", [None, 3]), static.data("label", [None, 1], "int64")
        static.nn.nce(label if options.pop("input", None) else x, label, 5, **options)


def test_a_label_out_of_range_is_refused_when_it_runs() -> None:
    with program() as (main, startup):
        x, label = static.data("x", [None, 3]), static.data("label", [None, 1], "int64")
        cost = static.nn.nce(x, label, 5)
    with pytest.raises(ValueError, match=r"nce: label 5 at position \[1, 0\] is out of range"):
        Session(main, startup).run([cost], x=np.ones((2, 3), np.float32), label=np.array([[1], [5]]))


def test_sparse_embedding_updates_the_rows_it_reads() -> None:
    with program() as (main, startup):
        ids = static.data("ids", [None], "int64")
        table = wb.ParamAttr(name="table", initializer=wb.nn.initializer.Constant(1.0))
        read = static.nn.sparse_embedding(ids, [6, 2], padding_idx=-1, param_attr=table)
        wb.optimizer.SGD(0.5).minimize(wb.sum(read))
    assert main.global_block().var("table@GRAD").kind == "rows"
    session = Session(main, startup)
    (rows,) = session.run([read], ids=np.array([1, 5, 1]))
    assert rows.tolist() == [[1, 1], [0, 0], [1, 1]]
    assert session.value("table").tolist() == [[1, 1], [0, 0], *[[1, 1]] * 4]


def test_sparse_embedding_tells_what_has_no_effect_and_refuses_what_it_does_not_know() -> None:
    with program():
        ids = static.data("ids", [None], "int64")
        entry = wb.distributed.CountFilterEntry(10)
        with pytest.warns(Notice, match="is_test, entry, table_class, slot have no effect"):
            static.nn.sparse_embedding(ids, [6, 2], is_test=True, entry=entry, table_class="SSDSparseTable", slot=1)
        with pytest.raises(ValueError, match="table_class is one of"):
            static.nn.sparse_embedding(ids, [6, 2], table_class="Table")
        with pytest.raises(TypeError, match=r"distributed\.CountFilterEntry"):
            static.nn.sparse_embedding(ids, [6, 2], entry="count")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "make",
    [
        lambda: wb.distributed.CountFilterEntry(-1),
        lambda: wb.distributed.CountFilterEntry(0.5),
        lambda: wb.distributed.ProbabilityEntry(1.5),
        lambda: wb.distributed.ShowClickEntry("show", 3),
    ],
)
def test_entries_refuse_what_is_no_rule(make: Any) -> None:
    with pytest.raises(ValueError, match="Entry takes"):
        make()


def test_row_conv_of_padded_sequences() -> None:
    with program() as (main, startup):
        x = static.data("x", [None, 5, 3])
        y = static.nn.row_conv(x, 2, act="relu")
    session = Session(main, startup)
    given = np.random.default_rng(4).standard_normal((2, 5, 3)).astype(np.float32)
    (output,), w = session.run([y], x=given), session.value(main.all_parameters()[0].name)
    expected = np.zeros_like(given)
    for n, t, d, i in np.ndindex(2, 5, 3, 3):
        expected[n, t, d] += w[i, d] * (given[n, t + i, d] if t + i < 5 else 0)
    np.testing.assert_allclose(output, np.maximum(expected, 0), rtol=1e-5, atol=1e-6)


def test_what_needs_sequences_of_varying_length_says_so() -> None:
    names = [name for name in STATIC_NN["workbench.builders.nn.sequences"].split() if name.startswith("sequence_")]
    assert len(names) == 15
    for name in names:
        with pytest.raises(Unimplemented, match=rf"static\.nn\.{name} works on sequences of varying length \(LoD\)"):
            getattr(static.nn, name)(None)
    with program(), pytest.raises(Unimplemented, match=r"row_conv of two dimensions .*\(LoD\)"):
        static.nn.row_conv(static.data("x", [9, 16]), 2)
