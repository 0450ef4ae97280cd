"""Programs with sizes that only values tell: all but the ops that make them run in kernels, whatever size it is."""

from __future__ import annotations

import _thread
import gc
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.control_flow.test_native_loops import close, cond, counter, feed_of, inputs, loop
from tests.parallel.models import Model, build
from tests.parallel.programs import strategies
from workbench import static
from workbench.config import override
from workbench.errors import EnforceNotMet
from workbench.executors.lowering.stretches.room import StretchRoom
from workbench.executors.lowering.stretches.sized import Sized
from workbench.executors.lowering.stretches.stretch import NodeCalls
from workbench.executors.planning.filled_plan import FilledPlan
from workbench.framework.op.declare import op
from workbench.framework.values.dtype import as_dtype
from workbench.framework.values.spec import Spec

pytestmark = pytest.mark.usefixtures("tape")
F = wb.nn.functional


class _Places:
    """What happens when the op is called whose result has a size that values tell."""

    def __init__(self) -> None:
        self.calls = 0
        self.then: Callable[[int], None] = lambda number: None

    def note(self) -> None:
        self.calls += 1
        self.then(self.calls)


places = _Places()


@op("toy_places", "X -> Out", infer=lambda x: Spec((-1,), as_dtype("int64")))
def PLACES(xp: Any, x: Any) -> Any:
    """Where a vector is above 0; the first place always."""
    places.note()
    return xp.flatnonzero(xp.concatenate([xp.ones_like(x[:1]), x[1:]]) > 0)


@op("toy_bent", "X -> Out", infer=lambda x: x, grad=lambda g, y, x: SLOPE(x) * g)
def BENT(xp: Any, x: Any) -> Any:
    """x / (1 + |x|), without a kernel."""
    return x / (1 + xp.abs(x))


@op("toy_slope", "X -> Out", infer=lambda x: x)
def SLOPE(xp: Any, x: Any) -> Any:
    """The slope of that."""
    return 1 / (1 + xp.abs(x)) ** 2


@pytest.fixture(autouse=True)
def static_mode() -> Iterator[None]:
    global places
    wb.enable_static()
    places = _Places()
    yield
    wb.disable_static()


def rows_of(h: Any) -> Any:
    """Some rows, how many is told by their values."""
    return wb.gather(h, PLACES(wb.sum(h, 1)), 0)


def weight(*shape: int) -> Any:
    return static.create_parameter(list(shape), "float32")


def decoding() -> Any:
    """What it makes in a pass is put behind what it has made."""
    x, n, h = inputs()
    w = weight(4, 4)

    def body(i: Any, h: Any, out: Any) -> list[Any]:
        h = wb.tanh(wb.matmul(h, w) + x)
        return [i + 1, h, wb.concat([out, wb.unsqueeze(F.relu(h * 2.0), 1)], 1)]

    return wb.mean(loop(lambda i, *rest: i < n, body, [counter(), h, wb.unsqueeze(h, 1)])[2] ** 2)


def attending() -> Any:
    """A query of all keys there have been."""
    _, n, h = inputs()
    w, wk, wv = weight(4, 4), weight(4, 4), weight(4, 4)

    def body(i: Any, h: Any, keys: Any, values: Any) -> list[Any]:
        keys = wb.concat([keys, wb.unsqueeze(wb.matmul(h, wk), 1)], 1)
        values = wb.concat([values, wb.unsqueeze(wb.matmul(h, wv), 1)], 1)
        weights = F.softmax(wb.matmul(wb.unsqueeze(wb.matmul(h, w), 1), keys, transpose_y=True))
        return [i + 1, wb.tanh(h + F.dropout(wb.squeeze(wb.matmul(weights, values), 1), 0.2)), keys, values]

    first = wb.unsqueeze(h, 1)
    return wb.mean(loop(lambda i, *rest: i < n, body, [counter(), h, first, first * 0.5])[1] ** 2)


def picking() -> Any:
    """Rows that are picked by values, others in each pass; the condition, too, looks at a part."""
    _, n, h = inputs()
    w = weight(4, 4)
    goes_on = lambda i, h: wb.logical_and(i < n, wb.mean(rows_of(h)) < 40.0)  # noqa: E731

    def body(i: Any, h: Any) -> list[Any]:
        picked = F.gelu(wb.matmul(rows_of(h), w))
        return [i + 1, h * 0.9 + wb.mean(wb.tanh(picked) * picked, 0, keepdim=True)]

    return wb.mean(loop(goes_on, body, [counter(), h])[1] ** 2)


def picking_twice() -> Any:
    """Outside of blocks: of what was picked a part is picked again; then sizes are known once more."""
    x, _, h = inputs()
    w = weight(4, 4)
    picked = wb.tanh(wb.matmul(rows_of(h), w) + 0.1)
    again = F.relu(wb.matmul(rows_of(picked * 1.5 - 0.2), w))
    return wb.mean(again * again) + wb.mean(wb.sum(picked, 0) * x)


def one_of_two_sizes() -> Any:
    """Both branches make other numbers of rows; one of them picks."""
    _, n, h = inputs()
    w = weight(4, 4)
    rows = cond(n > 2, lambda: wb.concat([h, wb.matmul(h, w)]), lambda: F.relu(rows_of(h)))
    return wb.mean(F.log_softmax(wb.matmul(rows, w)) ** 2)


def nested() -> Any:
    """A loop that grows around one that does, and one that does not; a branch in it; draws in both."""
    x, n, h = inputs()
    w = weight(4, 4)

    def body(i: Any, out: Any) -> list[Any]:
        last = loop(lambda j, h: j < 3, lambda j, h: [j + 1, wb.tanh(F.dropout(h, 0.2) + x)], [counter(), h])[1]
        more = loop(lambda j, r: j < i, lambda j, r: [j + 1, wb.concat([r, wb.matmul(h, w)])], [counter(), last])[1]
        mean = wb.mean(more, 0, keepdim=True)
        return [i + 1, wb.concat([out, cond(i % 2 == 0, lambda: mean, lambda: F.dropout(mean, 0.4) * mean)])]

    return wb.mean(loop(lambda i, out: i < n, body, [counter(), h])[1] ** 2)


def without_kernel() -> Any:
    """An op in the body that has none."""
    _, n, h = inputs()
    w = weight(4, 4)

    def body(i: Any, out: Any) -> list[Any]:
        bent = BENT(wb.matmul(out, w)) * 1.1
        return [i + 1, wb.concat([out, bent[-3:]])]

    return wb.mean(loop(lambda i, out: i < n, body, [counter(), h])[1] ** 2)


def looking_up() -> Any:
    """A table whose gradient is sparse."""
    _, n, h = inputs()
    table = weight(6, 4)
    embed = lambda ids: F.embedding(ids, table, sparse=True)  # noqa: E731
    first = wb.full([1, 1], 2, "int64")

    def body(i: Any, ids: Any, h: Any) -> list[Any]:
        ids = wb.concat([ids, wb.reshape(i % 6, [1, 1])], 1)
        return [i + 1, ids, h + wb.mean(wb.tanh(embed(ids)), 1)]

    return wb.mean(loop(lambda i, *rest: i < n, body, [counter(), first, h])[2] ** 2)


PROGRAMS: dict[str, Callable[[], Any]] = {
    program.__name__: program
    for program in (
        decoding, attending, picking, picking_twice, one_of_two_sizes, nested, without_kernel, looking_up,
    )
}  # fmt: skip
PASSES = [3, 0, 1, 7, 2, 7, 12]


def started(name: str) -> Model:
    return build(PROGRAMS[name], wb.optimizer.SGD(0.2)).start()


def run(exe: Any, model: Model, passes: list[int], rows: int = 3) -> list[np.ndarray]:
    losses = [exe.run([model.loss], feed=feed_of(count, rows))[0] for count in passes]
    return [*losses, *model.values().values()]


def by_reference(name: str, passes: list[int], rows: int = 3) -> list[np.ndarray]:
    model = started(name)
    with override(executor="reference"):
        exe = static.Executor()
        losses = [
            exe.run(model.main, feed=feed_of(count, rows), fetch_list=[model.loss], scope=model.scope)[0]
            for count in passes
        ]
    return [*losses, *model.values().values()]


@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_steps_are_those_of_the_reference(name: str) -> None:
    model = started(name)
    results = run(model.parallel(1), model, PASSES)
    close(results, by_reference(name, PASSES))


ALONE = {"while", "while_grad", "cond", "cond_grad", "toy_places", "toy_bent", "toy_slope", "toy_bent_grad", "dropout"}
ALONE |= {"dropout_grad", "lookup_table_v2_grad", "sum"}  # of sparse gradients


@pytest.fixture
def called(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often Python has run the ops of each type."""
    types, plain = Counter[str](), NodeCalls.run

    def counted(calls: NodeCalls, given: Any, extras: Any) -> Any:
        types.update(node.type for node in calls._nodes)
        return plain(calls, given, extras)

    monkeypatch.setattr(NodeCalls, "run", counted)
    return types


@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_what_python_runs_are_the_ops_without_kernels_alone(name: str, called: Counter[str]) -> None:
    """Where no array is empty."""
    model = started(name)
    exe = model.parallel(1)
    for count in PASSES:
        exe.run([model.loss], feed=feed_of(count))
    assert set(called) <= ALONE


@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_bits_are_the_same_when_sizes_come_again(name: str) -> None:
    model = build(PROGRAMS[name]).start()
    w = next(v for v in model.main.persistables() if v.trainable)
    with static.program_guard(model.main, model.startup):
        (gradient,) = static.gradients(model.loss, w)
    exe = static.Executor()
    run_once = lambda count: exe.run(  # noqa: E731
        model.main, feed=feed_of(count), fetch_list=[model.loss, gradient], scope=model.scope
    )
    model.main.random_seed = 11
    first = [run_once(count) for count in PASSES]
    if "dropout" not in {o.type for o in model.main.all_ops()}:
        again = [run_once(count) for count in PASSES]
        assert all(np.array_equal(a, b) for one, other in zip(first, again, strict=True) for a, b in zip(one, other))


@pytest.mark.parametrize("name", ["decoding", "picking", "picking_twice", "nested"])
def test_bits_are_those_of_any_number_of_threads(name: str) -> None:
    results = []
    for threads in (1, 2, 3):
        model = started(name)
        exe = model.parallel(2, **strategies(threads=threads))
        losses = [exe.run([model.loss], feed=[feed_of(c, 3), feed_of(c + 1, 4)])[0] for c in PASSES]
        results.append([*losses, *model.values().values()])
    for other in results[1:]:
        assert all(np.array_equal(a, b) for a, b in zip(results[0], other, strict=True))


@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_bits_are_those_of_an_observed_step(name: str) -> None:
    results = []
    for kept in (False, True):
        model = started(name)
        options = strategies(keep_temporaries=kept, fuse_all_optimizer_ops=False, enable_auto_fusion=False)
        results.append(run(model.parallel(1, **options), model, PASSES))
    assert all(np.array_equal(a, b) for a, b in zip(*results, strict=True))


def test_a_step_that_fails_in_the_middle_leaves_nothing() -> None:
    model, undisturbed = started("picking"), started("picking")
    exe = model.parallel(1)
    exe.run([model.loss], feed=feed_of(4))
    before, parameters = places.calls, model.values()

    def fail(number: int) -> None:
        if number == before + 5:
            raise ValueError("nowhere")

    places.then = fail
    with pytest.raises(EnforceNotMet, match=r"(?s)toy_places.*nowhere.*test_unknown_sizes"):
        exe.run([model.loss], feed=feed_of(4))
    places.then = lambda number: None
    assert all(np.array_equal(model.values()[name], value) for name, value in parameters.items())
    results, expected = run(exe, model, [5, 4]), run(undisturbed.parallel(1), undisturbed, [4, 5, 4])
    assert all(np.array_equal(a, b) for a, b in zip(results, expected[1:], strict=True))


def test_what_fails_outside_of_blocks_tells_the_device() -> None:
    model = started("picking_twice")
    exe = model.parallel(2)
    exe.run([model.loss], feed=[feed_of(1), feed_of(2)])
    before = places.calls

    def fail(number: int) -> None:
        if number == before + 4:
            raise ValueError("nowhere")

    places.then = fail
    with pytest.raises(EnforceNotMet, match=r"(?s)toy_places' failed on cpu:[01]: nowhere.*test_unknown_sizes"):
        exe.run([model.loss], feed=[feed_of(1), feed_of(2)])


def test_after_an_interrupt_steps_are_as_if_nothing_had_been() -> None:
    model, undisturbed = started("picking"), started("picking")
    exe = model.parallel(1)
    exe.run([model.loss], feed=feed_of(4))

    def interrupt(number: int) -> None:
        if number == before + 3:
            timer = threading.Timer(0.0, _thread.interrupt_main)
            timer.start()
            timer.join()

    before = places.calls
    places.then = interrupt
    with pytest.raises(KeyboardInterrupt):
        exe.run([model.loss], feed=feed_of(6))
    places.then = lambda number: None
    results, expected = run(exe, model, [5]), run(undisturbed.parallel(1), undisturbed, [4, 5])
    assert all(np.array_equal(a, b) for a, b in zip(results, expected[1:], strict=True))


def mismatched() -> Any:
    """From the third pass on shapes do not go together."""
    _, n, h = inputs()
    w = weight(4, 4)

    def body(i: Any, out: Any) -> list[Any]:
        return [i + 1, wb.concat([out, wb.matmul(out, w) * wb.reshape(out, [-1, 2])[:, :1]])]

    return wb.mean(loop(lambda i, out: i < n, body, [counter(), h])[1])


def test_shapes_that_do_not_fit_are_told_by_the_op() -> None:
    model = build(mismatched, wb.optimizer.SGD(0.1)).start()
    exe = model.parallel(1)
    exe.run([model.loss], feed=feed_of(0))
    for _ in range(3):
        with pytest.raises(EnforceNotMet, match=r"(?s)elementwise_mul.*test_unknown_sizes"):
            exe.run([model.loss], feed=feed_of(3))


def test_columns_of_no_rows_are_empty() -> None:
    """The last column of no rows begins behind the end of their memory."""
    x, n = static.data("x", [None, 4]), static.data("n", [1], "int64")

    def picked() -> Any:
        rows = x[1:]
        return wb.gather(rows, wb.reshape(wb.nonzero(rows[:, 3] > 0.0), [-1]), 0)

    rows = cond(n > 0, picked, lambda: x * 2.0)
    exe = static.Executor()
    for count in (1, 2, 5, 1):
        feed = feed_of(1, count)
        (result,) = exe.run(feed=feed, fetch_list=[rows])
        np.testing.assert_array_equal(result, feed["x"][1:][feed["x"][1:, 3] > 0.0])


def adding_where_picked() -> Any:
    """What is added has to have as many rows as are picked."""
    x, _, h = inputs()
    more = static.data("more", [None, 4])
    return wb.mean(wb.tanh(x[wb.sum(x, 1) > 0.0] * 2.0 + more) ** 2) + wb.mean(h)


def test_what_did_not_fit_at_first_runs_in_kernels_when_it_does(called: Counter[str]) -> None:
    model = build(adding_where_picked, wb.optimizer.SGD(0.1)).start()
    exe = static.Executor()
    x = np.array([[1.0, 2, 3, 4], [-1, -2, -3, -4], [1, -1, 2, 3], [0, 0, 0, 1]], np.float32)
    feed = {"x": x, "n": np.array([0]), "more": np.ones((2, 4), np.float32)}
    with pytest.raises(EnforceNotMet, match=r"(?s)elementwise_add.*test_unknown_sizes"):
        exe.run(model.main, feed=feed, scope=model.scope)
    called.clear()
    feed["more"] = np.ones((3, 4), np.float32)
    (loss,) = exe.run(model.main, feed=feed, fetch_list=[model.loss], scope=model.scope)
    assert np.isfinite(loss) and set(called) <= {"where_index"}


@pytest.fixture
def nan_flag() -> Iterator[None]:
    wb.set_flags({"FLAGS_check_nan_inf": True})
    yield
    wb.set_flags({"FLAGS_check_nan_inf": False})


def hiding_nan() -> Any:
    """The result has none, for it takes the other side everywhere."""
    _, n, h = inputs()

    def body(i: Any, out: Any) -> list[Any]:
        roots = wb.sqrt(wb.abs(out) * -1.0 - 1.0)
        return [i + 1, wb.concat([out, wb.where(out < 1e9, out, roots)])]

    return wb.mean(loop(lambda i, out: i < n, body, [counter(), h])[1])


@pytest.mark.usefixtures("nan_flag")
def test_the_op_that_makes_nan_is_told() -> None:
    model = build(hiding_nan, None).start()
    exe = static.Executor()
    for _ in range(3):
        with pytest.raises(EnforceNotMet, match=r"(?s)sqrt.*NaN.*test_unknown_sizes"):
            exe.run(model.main, feed=feed_of(3), fetch_list=[model.loss], scope=model.scope)


def rooms() -> list[StretchRoom]:
    gc.collect()
    return [o for o in gc.get_objects() if type(o) is StretchRoom]


def test_what_is_bound_and_kept_for_results_is_bounded() -> None:
    with override(plan_cache_mib=1):
        model = started("decoding")
        exe = model.parallel(1)
        for _ in range(3):
            exe.run([model.loss], feed=feed_of(60, 40))
            taken = [room.nbytes for room in rooms()]
    assert taken and max(taken) <= (1 << 20) + (1 << 16)


def test_results_that_are_kept_are_not_written_again() -> None:
    """A fetch of an earlier step stays as it was."""
    model = build(decoding, None).start()
    exe = static.Executor()
    fetch = lambda count: exe.run(  # noqa: E731
        model.main, feed=feed_of(count), fetch_list=[model.loss.block.ops[-3].outputs["Out"][2]], scope=model.scope
    )[0]
    first = fetch(5)
    copy = first.copy()
    for count in (5, 4, 6, 5):
        fetch(count)
    assert np.array_equal(first, copy)


def test_a_drop_gives_back_what_stretches_keep() -> None:
    model, undropped = started("decoding"), started("decoding")
    exe = model.parallel(1)
    exe.run([model.loss], feed=feed_of(9, 64))
    assert [room.nbytes for room in rooms() if room.nbytes]
    exe.drop_local_exe_scopes()
    assert not [room.nbytes for room in rooms() if room.nbytes]
    results, expected = run(exe, model, [3, 9], 64), run(undropped.parallel(1), undropped, [9, 3, 9], 64)
    assert all(np.array_equal(a, b) for a, b in zip(results, expected[1:], strict=True))


def test_a_second_step_binds_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    model = started("decoding")
    exe = model.parallel(1)
    for count in (12, 5, 9):
        exe.run([model.loss], feed=feed_of(count))
    bound: list[Any] = []
    plain = Sized.__init__
    monkeypatch.setattr(Sized, "__init__", lambda *given: (bound.append(given), plain(*given))[1])
    for count in (12, 5, 9):
        exe.run([model.loss], feed=feed_of(count))
    assert bound == []
    exe.run([model.loss], feed=feed_of(14))
    assert bound


def drawn(*shape: int) -> Any:
    return static.create_parameter(list(shape), "float32")


def whole_numbers(a: Any, below: int) -> Any:
    return wb.cast(wb.abs(a) * 100.0, "int64") % below


ON_GROWING: dict[str, Callable[[Any], Any]] = {  # of [3, n, 8]
    "softmax along what grows": lambda a: F.softmax(a, 1),
    "layer norm": lambda a: F.layer_norm(a, [8]),
    "instance norm": lambda a: wb.transpose(F.instance_norm(wb.transpose(a, [0, 2, 1])), [0, 2, 1]),
    "of all keys": lambda a: wb.matmul(F.softmax(wb.matmul(a, a, transpose_y=True) * 0.3), a),
    "with mask": lambda a: wb.matmul(wb.tril(wb.matmul(a, a, transpose_y=True)), a) * 0.1,
    "cumsum": lambda a: wb.cumsum(a * 0.1, 1),
    "flip, roll": lambda a: wb.flip(a, [1]) + wb.roll(a, 1, 1),
    "sort": lambda a: wb.take_along_axis(a, wb.argsort(a, 1), 1) + wb.sort(a, 1),
    "parts": lambda a: wb.concat(wb.split(a, 2, 2)[::-1], 2) + a[:, -1:] * wb.mean(a[:, :1]),
    "every second": lambda a: wb.tile(a, [1, 2, 1])[:, ::2],
    "convolution": lambda a: wb.squeeze(F.conv2d(wb.unsqueeze(a, 1), drawn(1, 1, 3, 3), padding=1), 1),
    "pooling": lambda a: wb.squeeze(F.max_pool2d(wb.unsqueeze(a, 1), 3, 1, 1), 1),
    "padding": lambda a: F.pad(a, [1, 2], mode="reflect", data_format="NCL")[:, :, 1:-2],
    "table": lambda a: a + F.embedding(whole_numbers(a[:, :, 0], 5), drawn(5, 8)),
    "labels": lambda a: a * F.cross_entropy(wb.reshape(a, [-1, 8]), wb.reshape(whole_numbers(a[:, :, 0], 8), [-1, 1])),
    "gather_nd": lambda a: a * wb.mean(wb.gather_nd(a, whole_numbers(a[:, :, :1], 3))),
    "in float64": lambda a: wb.cast(wb.tanh(wb.cast(a, "float64") * 2.0), "float32"),
    "mask": lambda a: a * wb.mean(a[a > wb.min(a)]),
    "branch": lambda a: cond(wb.mean(a) > 0.1, lambda: a * 0.5, lambda: wb.tanh(a)),
}


@pytest.mark.parametrize("name", sorted(ON_GROWING))
def test_ops_on_what_grows_do_what_the_reference_does(name: str, called: Counter[str]) -> None:
    """At all sizes, with gradients: whatever points to memory is set anew before each run."""

    def program() -> Any:
        x, n, w = static.data("x", [3, 1, 8]), static.data("n", [1], "int64"), drawn(8, 8)

        def body(i: Any, a: Any) -> list[Any]:
            y = wb.tanh(ON_GROWING[name](wb.matmul(a, w)))
            return [i + 1, wb.concat([a, y[:, -1:] * 0.7 + wb.mean(y, 1, keepdim=True) * 0.1], 1)]

        return wb.mean(loop(lambda i, a: i < n, body, [counter(), x * 1.0])[1] ** 2)

    results = []
    for executor in ("compiled", "reference"):
        model, rng = build(program, wb.optimizer.SGD(0.1)).start(), np.random.default_rng(3)
        with override(executor=executor):
            exe, losses = static.Executor(), []
            for count in (3, 7, 0, 7, 10, 4):
                feed = {"x": rng.standard_normal((3, 1, 8)).astype(np.float32), "n": np.array([count])}
                losses += exe.run(model.main, feed=feed, fetch_list=[model.loss], scope=model.scope)
        results.append([*losses, *model.values().values()])
    for one, other in zip(*results, strict=True):
        np.testing.assert_allclose(one, other, rtol=2e-3, atol=1e-4)
    assert set(called) <= {"cast", "pad_grad", "where_index", "cond", "cond_grad"}


def turned() -> Any:
    x, w = static.data("x", [4, None, 8]), drawn(8, 8)
    h = wb.tanh(wb.matmul(x, w))
    h = wb.flip(h, [1]) + wb.roll(h, 1, 1)
    return wb.mean(wb.matmul(wb.tril(wb.matmul(h, h, transpose_y=True)), h) ** 2)


def test_what_has_to_know_sizes_does_not_make_every_length_a_plan_of_its_own() -> None:
    """Reversed, rolled and cut to triangles: such rows are written for each size, the others once."""
    model, other = (build(turned, wb.optimizer.SGD(1e-4)).start() for _ in range(2))
    exe, rng = model.parallel(1), np.random.default_rng(3)
    feeds = [{"x": rng.standard_normal((4, length, 8)).astype(np.float32)} for length in (5, 9, 7, 12, 9, 8)]
    losses = []
    for feed in feeds:
        losses.append(exe.run([model.loss], feed=feed)[0])
        assert exe.inspection.last.is_native and type(exe.inspection.last.plan) is FilledPlan
    with override(executor="reference"):
        plain = static.Executor()
        expected = [plain.run(other.main, feed=f, fetch_list=[other.loss], scope=other.scope)[0] for f in feeds]
    close([*losses, *model.values().values()], [*expected, *other.values().values()])
