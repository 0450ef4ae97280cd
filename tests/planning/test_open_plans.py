"""Plans with open sizes: filled in they are the plan made for that very shape, and a step computes the same bits."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import workbench as wb
from tests.parallel.memory.plan_checker import check_plan
from tests.parallel.models import Model, build
from tests.parallel.programs import strategies
from tests.planning.stage_checkers import check_shapes, check_stages
from tests.planning.zoo import ZOO, Animal, floats
from workbench import static
from workbench.config import override
from workbench.executors.lowering import open_bindings
from workbench.executors.lowering.meta import MetaArray
from workbench.executors.lowering.open_binding import OpenBinding
from workbench.executors.lowering.open_tape import OpenTape
from workbench.executors.lowering.tape.flow import loops
from workbench.executors.lowering.tape.table import has_kernels
from workbench.executors.lowering.tape.vector_code import Unsuitable
from workbench.executors.planning import schedule
from workbench.executors.planning.filled_plan import FilledPlan
from workbench.executors.planning.open_plan import OpenPlan, open_dims, plan_openly
from workbench.executors.planning.plan import MemoryOptions, Plan, make_plan
from workbench.executors.planning.sizes.size import Size
from workbench.executors.running.finding import step_cache
from workbench.executors.running.finding.compiler import specs_of
from workbench.framework.op.record import find_op
from workbench.framework.values.dtype import as_dtype
from workbench.framework.values.spec import Spec

SHAPES = st.tuples(st.integers(2, 70), st.integers(2, 70))


@pytest.fixture(autouse=True)
def static_mode() -> Iterator[None]:
    wb.enable_static()
    yield
    wb.disable_static()


def executor(animal: Animal, model: Model, devices: int = 1, **options: Any) -> Any:
    learns = bool(model.main.all_parameters())
    started = model.start() if learns else model
    return started.parallel(devices, None if learns else model.main, **strategies(**options))


class Opened:
    """A program of the zoo with an open plan made for some shapes."""

    def __init__(self, name: str, seen: Sequence[tuple[int, int]], devices: int = 1, threads: int = 1) -> None:
        self.animal, self.model, self.threads = ZOO[name], ZOO[name].model(), threads
        self.executor = executor(self.animal, self.model, devices)
        self.graph = self.executor.inspection.graph((self.model.loss.name,))
        dims = open_dims([self.given(*shape) for shape in seen])
        assert dims is not None
        self.open = plan_openly(dims, self.graph, threads, MemoryOptions(), frozenset(), has_kernels)
        self.open.close()

    def given(self, rows: int, steps: int) -> dict[tuple[str, int], Spec]:
        return specs_of(self.executor.inspection.fed(self.animal.feed(rows, steps)))

    def filled(self, rows: int, steps: int) -> Plan | None:
        filled = self.open.fill(self.given(rows, steps))
        return None if filled is None else filled.plan

    def planned(self, rows: int, steps: int) -> Plan:
        given = self.given(rows, steps)
        return make_plan(self.graph, given, self.threads, MemoryOptions(), frozenset(), has_kernels)


def same_plan(a: Plan, b: Plan) -> None:
    """Every number and every decision."""
    assert str(a) == str(b)
    assert a.shapes.specs == b.shapes.specs and a.shapes.costs == b.shapes.costs
    assert a.schedule == b.schedule and a.waits == b.waits and a.before == b.before and dict(a.sizes) == dict(b.sizes)
    assert list(a.refs) == list(b.refs) and len(a.refs) == len(b.refs)
    for value, ref in a.refs.items():
        other = b.refs[value]
        assert (ref.root.place, ref.root.name, ref.root.nbytes, ref.root.offset) == (
            other.root.place, other.root.name, other.root.nbytes, other.root.offset,
        )  # fmt: skip
        assert (ref.offset, ref.shape, ref.strides, ref.dtype) == (
            other.offset, other.shape, other.strides, other.dtype,
        )  # fmt: skip
    assert a.memory.layouts == b.memory.layouts and a.memory.takeovers == b.memory.takeovers
    assert a.memory.aliases.aliases == b.memory.aliases.aliases and a.memory.aliases.own == b.memory.aliases.own
    assert a.memory.storage == b.memory.storage or vars(a.memory.storage) == vars(b.memory.storage)
    assert a.memory.offsets == b.memory.offsets
    assert [(row.node, row.thread, row.cost) for row in a.rows] == [(row.node, row.thread, row.cost) for row in b.rows]


@pytest.fixture(scope="module")
def opened() -> dict[tuple[str, int], Opened]:
    """Made when first asked for."""
    return {}


@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from(sorted(ZOO)), st.sampled_from([1, 2]), SHAPES)
def test_filled_in_it_is_the_plan_for_that_shape(
    opened: dict[tuple[str, int], Opened], name: str, devices: int, shape: tuple[int, int]
) -> None:
    key = name, devices
    if key not in opened:
        opened[key] = Opened(name, [(20, 30), (24, 31), (17, 34)], devices)
    plan = opened[key].filled(*shape)
    if plan is not None:
        same_plan(plan, opened[key].planned(*shape))
        check_stages(plan)
    assert opened[key].filled(17, 34) is not None


@pytest.mark.parametrize("name", sorted(ZOO))
def test_shapes_like_those_seen_fit(name: str) -> None:
    opened_plan = Opened(name, [(20, 30), (24, 31), (17, 34)])
    for shape in [(17, 34), (18, 28), (22, 36)]:
        plan = opened_plan.filled(*shape)
        assert type(plan) is FilledPlan
        check_plan(plan)
        check_shapes(plan)
        assert not any(isinstance(dim, Size) for spec in plan.shapes.specs.values() for dim in spec.shape)


def test_feeds_with_fewer_dimensions_do_not_fit() -> None:
    flat, square = (Spec(shape, as_dtype("float32")) for shape in ((4,), (4, 6)))
    x = ("x", 0)
    dims = open_dims([{x: Spec((4, 5), square.dtype)}, {x: square}])
    assert dims is not None and dims.sizes_of({x: square}) == [6]
    assert dims.sizes_of({x: flat}) is None


def test_what_never_changed_is_not_open() -> None:
    opened_plan = Opened("sequences", [(8, 30), (8, 31), (8, 32)])
    assert len(opened_plan.open.dims.groups) == 1
    assert opened_plan.filled(8, 40) is not None and opened_plan.filled(9, 40) is None


def test_sizes_that_were_equal_are_one_unknown_and_have_to_stay_equal() -> None:
    opened_plan = Opened("words", [(8, 30), (9, 31), (10, 32)])
    assert [len(group) for group in opened_plan.open.dims.groups] == [2, 1]  # rows of ids and labels; steps
    given = opened_plan.given(12, 33)
    uneven = {key: s.with_shape((13, 1)) if key[0] == "y" else s for key, s in given.items()}
    assert opened_plan.open.fill(given) is not None and opened_plan.open.fill(uneven) is None


def test_a_plan_is_right_for_shapes_that_had_better_have_more_threads_and_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whether threads share the work depends on how much there is of it; results do not depend on the threads."""
    monkeypatch.setattr(schedule, "processors", lambda: 2)
    opened_plan = Opened("sequences", [(2, 28), (3, 29), (4, 30)], threads=2)
    threads = {shape: opened_plan.planned(*shape).shares.threads for shape in [(4, 30), (4, 33), (6, 60)]}
    assert [*threads.values()] == [1, 1, 2]
    for shape, wanted in threads.items():
        filled = opened_plan.open.fill(opened_plan.given(*shape))
        assert filled is not None and (filled.wanting == 0) == (wanted == 1)
        assert filled.plan.shares.threads == 1
        check_plan(filled.plan)
    assert opened_plan.filled(4, 4000) is None  # a tape would run too long in one go


WEIGHTED = {
    "devices": 2, "gradient_scale_strategy": wb.static.BuildStrategy.GradientScaleStrategy.WeightedBySamples
}  # fmt: skip
OPTIONS: list[dict[str, Any]] = [
    {}, {"devices": 2, "num_threads": 2}, {"devices": 2, "mode": "Reduce"}, WEIGHTED, {"memory_optimize": False}
]  # fmt: skip
LIKE = [(32, 33), (34, 36), (36, 39), (38, 42), (40, 34), (32, 33), (42, 48)]  # decided alike
UNEVEN = [(33, 33), (34, 36), (37, 39), (38, 42), (41, 34), (39, 33), (43, 48)]  # of which devices get other shares


def train(name: str, shapes: Sequence[tuple[int, int]], devices: int = 1, **options: Any) -> tuple[list[bytes], Any]:
    """The loss of every step and all parameters after it, as bits."""
    animal = ZOO[name]
    model = animal.model()
    exe = executor(animal, model, devices, **options)
    bits = []
    for shape in shapes:
        (loss,) = exe.run([model.loss], feed=animal.feed(*shape))
        bits += [loss.tobytes(), *(value.tobytes() for value in model.values().values())]
    return bits, exe.inspection


def filled_bindings(inspection: Any) -> int:
    """How many shapes were filled in."""
    return sum(type(plan) is FilledPlan for plan in inspection.plans)


@pytest.mark.usefixtures("tape")
@pytest.mark.parametrize(
    ("name", "options"),
    [*((name, {}) for name in sorted(ZOO)), *(("images", options) for options in OPTIONS[1:]),
     *(("rows", options) for options in OPTIONS[1:]), ("words", OPTIONS[1])],
    ids=str,
)  # fmt: skip
def test_steps_compute_the_same_bits(name: str, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    shapes = UNEVEN if options is WEIGHTED else LIKE
    results, inspection = train(name, shapes, **options)
    with monkeypatch.context() as patch:
        patch.setattr(open_bindings.OpenBindings, "fit", lambda *given: None)
        expected, apart = train(name, shapes, **options)
    assert results == expected
    assert filled_bindings(inspection) >= 1 and filled_bindings(apart) == 0
    for binding in inspection.bindings:
        check_plan(binding.plan)


@pytest.mark.usefixtures("tape")
@settings(max_examples=5, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from(sorted(ZOO)), st.sampled_from(OPTIONS), st.lists(SHAPES, min_size=4, max_size=9))
def test_steps_of_any_shapes_compute_the_same_bits(
    monkeypatch: pytest.MonkeyPatch, name: str, options: dict[str, Any], shapes: list[tuple[int, int]]
) -> None:
    results, _ = train(name, shapes, **options)
    with monkeypatch.context() as patch:
        patch.setattr(open_bindings.OpenBindings, "fit", lambda *given: None)
        assert train(name, shapes, **options)[0] == results


@pytest.fixture
def tried(monkeypatch: pytest.MonkeyPatch) -> list[OpenPlan]:
    """The open plans somebody tried to bind."""
    plans: list[OpenPlan] = []

    class Noted(OpenBinding):
        def __init__(self, plan: OpenPlan, ground: Any) -> None:
            plans.append(plan)
            super().__init__(plan, ground)

    monkeypatch.setattr(step_cache, "OpenBinding", Noted)
    return plans


@contextmanager
def watched_shapes(type_: str, look: Callable[[Any], None]) -> Iterator[None]:
    """The shape rule of an op has a look at the sizes it is given."""
    op = find_op(type_)
    before = op.infer

    def looking(x: Spec, *rest: Any, **attrs: Any) -> Any:
        for dim in x.shape:
            look(dim)
        return before(x, *rest, **attrs)

    object.__setattr__(op, "infer", looking)
    try:
        yield
    finally:
        object.__setattr__(op, "infer", before)


SHAPES_IN_TURN = [(rows, 3) for rows in range(4, 14)]


@pytest.mark.usefixtures("tape")
def test_what_needs_its_sizes_is_planned_shape_by_shape(tried: list[OpenPlan]) -> None:
    with watched_shapes("tanh", operator.index):
        _, inspection = train("chain", SHAPES_IN_TURN)
    assert filled_bindings(inspection) == 0 and tried == []
    (reason,) = inspection.refusals
    assert "has to be known when the plan is made" in reason


@pytest.mark.usefixtures("tape")
@pytest.mark.parametrize("devices", [1, 2])
def test_a_rule_that_takes_nothing_but_whole_numbers_is_asked_shape_by_shape(devices: int) -> None:
    """A shape rule is a user's: it may know nothing of sizes that are no ints."""

    def require_number(dim: Any) -> None:
        if not isinstance(dim, int):
            raise TypeError("a dimension is an int")

    right, _ = train("chain", SHAPES_IN_TURN, devices)
    with watched_shapes("tanh", require_number):
        results, inspection = train("chain", SHAPES_IN_TURN, devices)
    assert results == right and filled_bindings(inspection) == 0
    (reason,) = inspection.refusals
    assert "op 'tanh' take no open sizes: TypeError: a dimension is an int" in reason


@pytest.mark.usefixtures("tape")
def test_a_rule_that_tells_open_sizes_something_else_is_asked_shape_by_shape() -> None:
    """What is no int it may take for unknown."""
    op = find_op("tanh")
    before = op.infer

    def unknown_or(x: Spec, **attrs: Any) -> Any:
        return before(x.with_shape(dim if isinstance(dim, int) else -1 for dim in x.shape), **attrs)

    right, _ = train("chain", SHAPES_IN_TURN)
    object.__setattr__(op, "infer", unknown_or)
    try:
        results, inspection = train("chain", SHAPES_IN_TURN)
    finally:
        object.__setattr__(op, "infer", before)
    (reason,) = inspection.refusals
    assert results == right and "the shape rule of op 'tanh' gives" in reason


@pytest.mark.usefixtures("tape")
def test_what_else_goes_wrong_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fault in what only runs for open sizes is no reason to plan shape by shape."""

    def close(plan: OpenPlan, more: Any) -> None:
        raise AssertionError("a fault")

    monkeypatch.setattr(OpenPlan, "close", close)
    with pytest.raises(Exception, match="a fault"):
        train("chain", SHAPES_IN_TURN)


@pytest.mark.usefixtures("tape")
def test_rows_that_need_their_sizes_are_written_for_every_shape(monkeypatch: pytest.MonkeyPatch) -> None:
    """A convolution's tables; what is around them is filled in."""
    gaps: list[str] = []
    leave_gap = OpenTape.leave_gap
    monkeypatch.setattr(OpenTape, "leave_gap", lambda tape, node: (gaps.append(node.type), leave_gap(tape, node))[1])
    _, inspection = train("images", [(rows, 0) for rows in range(32, 40)])
    assert filled_bindings(inspection) >= 4 and inspection.refusals == []
    assert "conv2d" in gaps and "relu" not in gaps and "momentum" not in " ".join(gaps)


ORDERS: dict[str, list[int]] = {
    "ascending": list(range(10, 50)),
    "descending": list(range(49, 9, -1)),
    "shuffled": np.random.default_rng(0).permutation(range(10, 50)).tolist(),
}


@pytest.mark.usefixtures("tape")
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("threads", [1, 2])
def test_one_open_plan_serves_all_lengths_from_the_first_step_on(
    order: str, threads: int, tried: list[OpenPlan]
) -> None:
    """With the bits of an engine that plans each length for itself."""
    shapes = [(9, steps) for steps in ORDERS[order]]
    results, inspection = train("sequences", shapes, num_threads=threads)
    assert filled_bindings(inspection) == 40 and len(tried) == 1
    with mock.patch.object(open_bindings.OpenBindings, "fit", return_value=None):
        apart, _ = train("sequences", shapes, num_threads=threads)
    assert results == apart


@pytest.mark.usefixtures("tape")
def test_steps_that_want_another_plan_get_it_when_that_pays(tried: list[OpenPlan], monkeypatch: Any) -> None:
    """Many long sequences after a short one: then threads share the work."""
    monkeypatch.setattr(schedule, "processors", lambda: 2)
    monkeypatch.setattr(step_cache, "_WORTH", 1e-3)
    shapes = [(4, 30), *[(6, 60)] * 300, (6, 61), (4, 30)]
    results, inspection = train("sequences", shapes, num_threads=2)
    assert len(tried) == 2
    threads = {plan.shapes.specs[plan.feeds[0]].shape: plan.shares.threads for plan in inspection.plans}
    assert threads[4, 30, 8] == 1 and threads[6, 60, 8] == threads[6, 61, 8] == 2
    with mock.patch.object(open_bindings.OpenBindings, "fit", return_value=None):
        assert train("sequences", shapes, num_threads=2)[0] == results


@pytest.mark.usefixtures("tape")
def test_what_a_length_gives_does_not_depend_on_those_that_came_before() -> None:
    """Each from the same parameters, after all others and as the only one."""
    animal = ZOO["sequences"]
    first, *others = (animal.model().start() for _ in range(4))
    exe, values = first.parallel(1), first.values()
    for steps in ORDERS["shuffled"]:
        exe.run([first.loss], feed=animal.feed(9, steps))
    for steps, other in zip((10, 31, 49), others, strict=True):
        results = []
        for model, engine in ((first, exe), (other, other.parallel(1))):
            for name, value in values.items():
                model.scope.find_var(name).get_tensor().set(value)
            (loss,) = engine.run([model.loss], feed=animal.feed(9, steps))
            results.append([loss.tobytes(), *(value.tobytes() for value in model.values().values())])
        assert results[0] == results[1]


@pytest.mark.usefixtures("tape")
def test_one_open_plan_serves_images_of_all_sizes(tried: list[OpenPlan]) -> None:
    """Square ones, too: height and width are two unknowns."""
    sizes = [(rows, steps) for rows in (3, 5) for steps in (9, 12, 14, 20, 33)]
    results, inspection = train("pictures", sizes)
    assert filled_bindings(inspection) == len(sizes) and len(tried) == 1
    with mock.patch.object(open_bindings.OpenBindings, "fit", return_value=None):
        assert train("pictures", sizes)[0] == results


def _run_lengths(body: Any, shapes: Sequence[tuple[int, ...]]) -> Any:
    """An executor that has run with one feed of these shapes after the other."""
    main = static.Program()
    with static.program_guard(main, static.Program()):
        out = body(static.data("x", [None] * (len(shapes[0]) - 1) + [8]))
    exe = static.ParallelExecutor(use_cuda=False, main_program=main, scope=static.Scope())
    for shape in shapes:
        exe.run([out], feed={"x": floats(*shape)})
    return exe


@pytest.mark.usefixtures("tape")
def test_as_many_rows_as_columns_somewhere_leave_lengths_open(tried: list[OpenPlan]) -> None:
    """Whether that is meant nobody knows: rows are as many as they are then."""
    _, inspection = train("pictures", [(32, width) for width in (12, 13, 20)])  # 32 channels
    assert filled_bindings(inspection) == 3 and len(tried[-1].dims.groups) < 3


@pytest.mark.usefixtures("tape")
@pytest.mark.parametrize("width", [16, 17])
def test_half_a_length_that_is_as_many_as_something_else_is_planned_for_itself(
    width: int, tried: list[OpenPlan]
) -> None:
    main = static.Program()
    with static.program_guard(main, static.Program()):
        x = static.data("x", [None, 2, None])
        out = wb.mean(wb.nn.functional.max_pool1d(x, 2) * wb.ones([8]))
    exe = static.ParallelExecutor(use_cuda=False, main_program=main, scope=static.Scope())
    for rows in (3, 4):
        x = floats(rows, 2, width)
        (result,) = exe.run([out], feed={"x": x})
        np.testing.assert_allclose(result, x[..., :16].reshape(rows, 2, 8, 2).max(-1).mean(dtype=np.float64), 1e-5)
    assert [len(plan.dims.groups) for plan in tried] == [2, 1]  # the rows are open


@pytest.mark.usefixtures("tape")
def test_what_would_run_in_python_for_all_sizes_is_planned_for_each(tried: list[OpenPlan]) -> None:
    """A loop whose body has kernels for the sizes of one shape."""

    def loop(x: Any) -> Any:
        i, many = wb.full([1], 0, "int64"), wb.full([1], 5, "int64")
        _, h = static.nn.while_loop(lambda i, h: wb.less_than(i, many), lambda i, h: [i + 1, wb.tanh(h)], [i, x])
        return wb.mean(h)

    exe = _run_lengths(loop, [(3, 5, 8)])
    (binding,) = exe.inspection.bindings
    assert all(program.is_native for program in binding.speculative)


PARTS = [slice(0, 1), slice(1, None), slice(None, -1), slice(-3, None), slice(None, None, 2), slice(-2, None, -1)]


@pytest.mark.usefixtures("tape")
@pytest.mark.parametrize("part", PARTS, ids=str)
def test_one_open_plan_takes_parts_of_all_lengths(part: slice, tried: list[OpenPlan]) -> None:
    def body() -> Any:
        w = static.create_parameter([8], "float32")
        return wb.mean((static.data("x", [None, None, 8]) * w)[:, part] ** 2)

    model = build(body, wb.optimizer.SGD(0.5)).start()
    exe, name = model.parallel(1), model.main.all_parameters()[0].name
    for length in (6, 9, 4, 13, 9):
        x, w = floats(3, length, 8), model.values()[name].astype(np.float64)
        (loss,) = exe.run([model.loss], feed={"x": x})
        taken = x.astype(np.float64)[:, part]
        np.testing.assert_allclose(loss, ((taken * w) ** 2).mean(), rtol=1e-5)
        slope = (2 * taken**2 * w).sum((0, 1)) / taken.size
        np.testing.assert_allclose(model.values()[name], w - 0.5 * slope, rtol=1e-5, atol=1e-7)
    is_whole = part.step != 2  # else even lengths lie in memory as no others do
    assert filled_bindings(exe.inspection) == 4 and (len(tried) == 1) == is_whole


@pytest.mark.usefixtures("tape")
def test_a_length_of_which_a_part_is_empty_is_planned_for_itself() -> None:
    """What is divided by the number of rows in kernels cannot be worked out then."""
    main = static.Program()
    with static.program_guard(main, static.Program()):
        rows = wb.tanh(static.data("x", [None, 4]))[1:]
        outs = [wb.argmax(rows * 2.0, axis=1), wb.sum(rows)]
    exe = static.ParallelExecutor(use_cuda=False, main_program=main, scope=static.Scope())
    for length in (5, 5, 0, 40, 1, 7, 1):
        x = floats(length, 4)
        places, total = exe.run(outs, feed={"x": x})
        np.testing.assert_array_equal(places, x[1:].argmax(1))
        np.testing.assert_allclose(total, [np.tanh(x[1:].astype(np.float64)).sum()], rtol=1e-5)


def _recurrent(sequences: int | None) -> tuple[Any, Any]:
    """A network over sequences of any length, and what runs it for so many sequences."""
    main = static.Program()
    with static.program_guard(main, static.Program()):
        x, n = static.data("x", [None, sequences, 4]), static.data("n", [1], "int64")
        step = lambda i, h: [i + 1, wb.tanh(h * 0.5 + wb.squeeze(wb.gather(x, i), 0))]  # noqa: E731
        begin = [wb.full([1], 0, "int64"), wb.zeros_like(x[0])]
        out = wb.mean(static.nn.while_loop(lambda i, h: i < n, step, begin)[1])
    return static.ParallelExecutor(use_cuda=False, main_program=main, scope=static.Scope()), out


@pytest.mark.usefixtures("tape")
@pytest.mark.parametrize("sequences", [3, None], ids=["length", "both"])
@pytest.mark.parametrize("has_open_form", [True, False], ids=["open", "known"])
def test_what_has_run_in_kernels_does_so_in_later_plans(
    sequences: int | None, has_open_form: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of every length as many nodes as of the first one, with the bits of an engine that sees that length only."""
    operands = loops.settled

    def of_known(writer: Any, values: Any) -> Any:
        if any(type(writer.context.array(value)) is MetaArray for value in values if value is not None):
            raise Unsuitable
        return operands(writer, values)

    if not has_open_form:
        monkeypatch.setattr(loops, "settled", of_known)
    exe, out = _recurrent(sequences)
    for steps in (5, 9, 12, 7, 30, 22) * 2:
        feed = {"x": floats(steps, 3, 4), "n": np.array([steps], np.int64)}
        alone, its_out = _recurrent(sequences)
        assert exe.run([out], feed=feed)[0].tobytes() == alone.run([its_out], feed=feed)[0].tobytes()
        counts = {len(binding.plan.rows) - len(binding.in_python) for binding in exe.inspection.bindings}
        assert counts == {len(binding.plan.rows) for binding in alone.inspection.bindings}
    assert bool(filled_bindings(exe.inspection)) == has_open_form


@pytest.mark.usefixtures("tape")
def test_dimensions_that_have_to_be_equal_become_one_unknown(tried: list[OpenPlan]) -> None:
    """Of a mask both are as long as the sequence, which is only seen where they meet."""
    main = static.Program()
    with static.program_guard(main, static.Program()):
        x, mask = static.data("x", [None, None, 8]), static.data("mask", [None, None, None])
        out = wb.mean(wb.nn.functional.softmax(wb.matmul(x, x, transpose_y=True) + mask))
    exe = static.ParallelExecutor(use_cuda=False, main_program=main, scope=static.Scope())
    for rows, steps in [(3, 5), (3, 9), (4, 12)]:
        x, mask = floats(rows, steps, 8), floats(rows, steps, steps)
        (result,) = exe.run([out], feed={"x": x, "mask": mask})
        logits = np.exp(x.astype(np.float64) @ x.swapaxes(1, 2) + mask)
        np.testing.assert_allclose(result, (logits / logits.sum(-1, keepdims=True)).mean(), 1e-5)
    assert len(tried[-1].dims.groups) == 2 and filled_bindings(exe.inspection) == 3


def test_as_calls_nothing_is_open() -> None:
    with override(cpu_tape=False):
        _, inspection = train("classifier", [(rows, 0) for rows in range(4, 9)])
    assert filled_bindings(inspection) == 0


def test_a_program_run_with_two_shapes_is_not_planned_openly(tried: list[OpenPlan]) -> None:
    train("classifier", [(rows, 0) for rows in [8, 8, 8, 3] * 3])
    assert tried == []
