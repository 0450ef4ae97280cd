"""Every stage of planning on every program of the zoo, checked by definition; and the checks find what is wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from copy import copy
from dataclasses import fields, replace
from functools import cache, partial
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

import workbench as wb
from tests.parallel.memory.plan_checker import moved, with_memory
from tests.parallel.models import Model
from tests.parallel.programs import drawn_model, randoms, sizes, strategies
from tests.parallel.random_models import feed
from tests.planning import stage_checkers
from tests.planning.stage_checkers import check_shapes, check_stages
from tests.planning.zoo import ZOO
from workbench.executors.planning import schedule as schedule_module
from workbench.executors.planning.memory.aliases import Alias
from workbench.executors.planning.memory.offsets import Offsets, assign_offsets
from workbench.executors.planning.memory.storage import StoragePiece
from workbench.executors.planning.plan import Plan
from workbench.executors.planning.schedule import Schedule
from workbench.executors.planning.shares import Shares
from workbench.framework.op.record import Cost
from workbench.graph.ssa import Node

OPTIONS: dict[str, tuple[int, dict[str, Any]]] = {
    "one device": (1, {}),
    "two devices": (2, {}),
    "two devices, Reduce": (2, {"mode": "Reduce"}),
    "two threads": (2, {"threads": 2}),
    "nothing shares memory": (2, {"memory_optimize": False, "enable_inplace": False}),
    "no passes": (1, {"enable_auto_fusion": False, "fuse_all_optimizer_ops": False, "fuse_elewise_add_act_ops": False}),
}


@pytest.fixture(autouse=True)
def static_mode() -> Iterator[None]:
    wb.enable_static()
    yield
    wb.disable_static()


@pytest.fixture
def scattered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every node goes to the thread that is free first, however little there is to do."""
    for name in ("HAND_OFF", "CONTENTION", "CALL", "NATIVE_HAND_OFF", "NATIVE_CALL", "NATIVE_START"):
        monkeypatch.setattr(schedule_module, name, 0.0)
    monkeypatch.setattr(schedule_module, "MARGIN", 1e9)
    monkeypatch.setattr(schedule_module, "processors", lambda: 4)


def plan_of(model: Model, given: Any, devices: int, **options: Any) -> Plan:
    """The plan of a step that fetches the loss; nothing runs."""
    learns = bool(model.main.all_parameters())
    started = model.start() if learns else model
    executor = started.parallel(devices, None if learns else model.main, **strategies(**options))
    return executor.inspection.binding((model.loss.name,), given).plan


@pytest.mark.parametrize("name", ZOO)
@pytest.mark.parametrize("options", OPTIONS)
def test_every_stage_of_every_program(scattered: None, name: str, options: str) -> None:
    devices, chosen = OPTIONS[options]
    plan = plan_of(ZOO[name].model(), ZOO[name].feed(6, 5), devices, **chosen)
    check_stages(plan)
    check_shapes(plan)


@settings(max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(randoms, sizes)
def test_every_stage_of_random_programs(scattered: None, random: Random, size: int) -> None:
    model = drawn_model(random, size)
    plan = plan_of(model, feed(1, random.choice([4, 9])), random.choice([1, 2, 3]), threads=random.choice([1, 4]))
    check_stages(plan)
    check_shapes(plan)


# The checks find what is wrong: a plan whose stage has decided something else


@cache
def rich_plan() -> Plan:
    """With buckets, layouts, aliases, results over inputs, and memory that is used again."""
    filled = plan_of(ZOO["sequences"].model(), ZOO["sequences"].feed(6, 5), 2)
    return Plan(**{field.name: getattr(filled, field.name) for field in fields(Plan)})


def scheduled(plan: Plan, **changes: Any) -> Plan:
    return replace(plan, schedule=replace(plan.schedule, **changes))


def without_first(items: Mapping[Any, Any]) -> dict[Any, Any]:
    return dict(list(items.items())[1:])


def swapped(plan: Plan) -> Schedule:
    """Two nodes of which one needs the other change places."""
    order = list(plan.schedule.order)
    later = next(n for n in order if plan.before[n])
    earlier = plan.before[later][0]
    i, j = order.index(earlier), order.index(later)
    order[i], order[j] = later, earlier
    return replace(plan.schedule, order=tuple(order))


def bucket(plan: Plan, **changes: Any) -> Plan:
    """The first bucket of two or more members is different."""
    buckets = list(plan.memory.buckets.buckets)
    number = next(i for i, b in enumerate(buckets) if b is not None and len(b.members) > 1)
    old = buckets[number]
    assert old is not None
    new = {name: change(getattr(old, name)) for name, change in changes.items()}
    buckets[number] = replace(old, **new)
    return with_memory(plan, buckets=replace(plan.memory.buckets, buckets=tuple(buckets)))


def laid_out(plan: Plan, change: Callable[[tuple[int, ...]], tuple[int, ...]]) -> Plan:
    layouts = {value: change(strides) for value, strides in plan.memory.layouts.items()}
    assert layouts
    return with_memory(plan, layouts=layouts)


def alias(plan: Plan, change: Callable[[Any], Any]) -> Plan:
    """A view of which the refs say something else."""
    view = next(v for v in plan.aliases if plan.refs[v].strides != sorted(plan.refs[v].strides, reverse=True)
                and len(set(plan.refs[v].shape)) > 1 and len(plan.refs[v].shape) > 2)  # fmt: skip
    return with_memory(plan, refs={**plan.refs, view: change(plan.refs[view])})


def alias_of_another(plan: Plan) -> Plan:
    """What a product makes is said to be a view of its operand."""
    writers = {v: node for node in plan.graph.nodes for v in node.writes}
    value = next(v for v in plan.refs if v in writers and writers[v].type == "mul" and v not in plan.aliases)
    source = next(v for v in writers[value].value_reads if not plan.refs[v].root.name)
    seen = plan.memory.aliases.lies(value)
    aliases = replace(plan.memory.aliases, aliases={**plan.memory.aliases.aliases, value: Alias(source, seen)})
    refs = {**plan.refs, value: replace(plan.refs[value], root=plan.refs[source].root, offset=0)}
    return with_memory(plan, aliases=aliases, refs=refs)


def over(plan: Plan, pick: Callable[[Plan, Any], Any]) -> Plan:
    """A result over another input: the first for which there is one."""
    writers = {v: node for node in plan.graph.nodes for v in node.writes}
    for result in plan.refs:
        source = pick(plan, writers[result]) if result in writers else None
        if source is not None:
            refs = {**plan.refs, result: plan.refs[source]}
            return with_memory(plan, takeovers={**plan.memory.takeovers, result: source}, refs=refs)
    raise AssertionError("nothing to change")


def read_later(plan: Plan, node: Any) -> Any:
    if not (node.is_op and node.record.is_elementwise):
        return None
    position = plan.position
    later = (v for v in node.value_reads if v in plan.refs and not plan.refs[v].root.name)
    return next((v for v in later if any(v in n.value_reads and position[n] > position[node] for n in position)), None)


def of_a_product(plan: Plan, node: Any) -> Any:
    return next((v for v in node.value_reads if v in plan.refs), None) if node.type == "softmax" else None


def of_the_scope(plan: Plan, node: Any) -> Any:
    elementwise = node.is_op and node.record.is_elementwise
    return next((v for v in node.value_reads if v.persistable), None) if elementwise else None


def pieces(plan: Plan, **changes: Any) -> Plan:
    storage = plan.memory.storage
    change = {name: (lambda old, f=f: f(old)) for name, f in changes.items()}
    new = tuple(p._replace(**{name: f(getattr(p, name)) for name, f in change.items()}) for p in storage.pieces)
    return with_memory(plan, storage=replace(storage, pieces=new))


FAULTS: dict[str, tuple[str, Callable[[Plan], Plan]]] = {
    "schedule: two nodes the wrong way round": ("check_schedule", lambda p: replace(p, schedule=swapped(p))),
    "schedule: a node is left out": ("check_schedule", lambda p: scheduled(p, order=p.schedule.order[:-1])),
    "schedule: a node twice": (
        "check_schedule", lambda p: scheduled(p, order=(*p.schedule.order[:1], *p.schedule.order)),
    ),
    "shares: a node that is in no graph": (
        "check_shares", lambda p: replace(p, shares=Shares({copy(p.graph.nodes[0]): 2}, 2)),
    ),
    "shares: nothing for a thread": ("check_shares", lambda p: replace(p, shares=Shares({}, 2))),
    "shares: more blocks than anybody takes": (
        "check_shares", lambda p: replace(p, shares=Shares({next(iter(p.native)): 9}, 2)),
    ),
    "buckets: the wrong way round": ("check_buckets", partial(bucket, members=lambda m: m[::-1])),
    "buckets: a gap": ("check_buckets", partial(bucket, offsets=lambda o: (o[0], *(n + 64 for n in o[1:])))),
    "buckets: all in one place": ("check_buckets", partial(bucket, offsets=lambda o: (0,) * len(o))),
    "layout: a dimension twice": ("check_layouts", lambda p: laid_out(p, lambda s: (*s[:-1], s[0]))),
    "layout: gaps": ("check_layouts", lambda p: laid_out(p, lambda s: tuple(2 * n for n in s))),
    "layout: elements over each other": ("check_layouts", lambda p: laid_out(p, lambda s: (4,) * len(s))),
    "aliases: strides of another order": (
        "check_aliases", lambda p: alias(p, lambda r: replace(r, strides=r.strides[::-1])),
    ),
    "aliases: another place": ("check_aliases", lambda p: alias(p, lambda r: replace(r, offset=r.offset + 4))),
    "aliases: what is no view": ("check_aliases", alias_of_another),
    "in place: over what is read later": ("check_takeovers", lambda p: over(p, read_later)),
    "in place: by an op that reads again": ("check_takeovers", lambda p: over(p, of_a_product)),
    "in place: over the scope's": ("check_takeovers", lambda p: over(p, of_the_scope)),
    "storage: pieces too small": ("check_storage", lambda p: pieces(p, nbytes=lambda n: n // 2)),
    "storage: needed too short": ("check_storage", lambda p: pieces(p, last=lambda n: n - 1)),
    "storage: needed too late": ("check_storage", lambda p: pieces(p, first=lambda n: n + 1)),
    "offsets: all in one place": ("check_offsets", lambda p: moved(p, lambda root: 0)),
    "offsets: a line too early": ("check_offsets", lambda p: moved(p, lambda root: max(root.offset - 64, 0))),
    "offsets: arenas too small": (
        "check_offsets",
        lambda p: with_memory(p, offsets=Offsets(p.memory.offsets.offsets, {k: n // 2 for k, n in p.sizes.items()})),
    ),
}  # fmt: skip


@pytest.mark.usefixtures("tape")
@pytest.mark.parametrize("fault", FAULTS)
def test_a_check_finds(fault: str) -> None:
    check, mutate = FAULTS[fault]
    plan = rich_plan()
    getattr(stage_checkers, check)(plan)
    with pytest.raises(AssertionError):
        getattr(stage_checkers, check)(mutate(plan))


@pytest.mark.parametrize("change", [lambda d: d + 1, lambda d: max(d - 1, 1), lambda d: -d])
def test_the_check_of_shapes_finds(change: Callable[[int], int]) -> None:
    plan = rich_plan()
    check_shapes(plan)
    written = {v for node in plan.graph.nodes for v in node.writes}
    value = next(v for v in reversed(plan.shapes.specs) if v in written and plan.shapes.specs[v].shape)
    spec = plan.shapes.specs[value]
    wrong = spec.with_shape([change(d) for d in spec.shape]) if change(2) > 0 else spec.with_shape([])
    shapes = type(plan.shapes).__new__(type(plan.shapes))
    vars(shapes).update(vars(plan.shapes), specs={**plan.shapes.specs, value: wrong})
    with pytest.raises(AssertionError, match="in truth"):
        check_shapes(replace(plan, shapes=shapes))


@pytest.mark.parametrize("ends", [(1, 2), (2, 1)])
def test_pieces_that_lie_side_by_side_make_room_for_a_larger_one(ends: tuple[int, int]) -> None:
    first, second = (StoragePiece(0, 64, "", 0, end, frozenset({0})) for end in ends)
    both = StoragePiece(0, 128, "", 3, 3, frozenset({0}))
    assert assign_offsets([first, second, both], 1, reuse=True) == Offsets((0, 64, 0), {0: 128})


def test_what_lies_in_the_scope_has_no_place_in_an_arena() -> None:
    pieces = [StoragePiece(0, 64, name, 0, 1, frozenset({0})) for name in ("w", "")]
    assert assign_offsets(pieces, 2, reuse=False) == Offsets((0, 0), {0: 64, 1: 0})


def test_two_threads_are_of_use_on_one_processor_while_an_op_waits_in_python(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(schedule_module, "processors", lambda: 1)
    long, other = (Node("tanh", (0,), [], [], {}, 0) for _ in range(2))
    costs = dict.fromkeys((long, other), Cost(flops=1e9, bytes=0))
    share = partial(schedule_module.shared_schedule, [long, other], {}, costs, 2)
    shared = share(native={long})
    assert shared is not None and set(shared.thread.values()) == {0, 1}
    assert share(native={long, other}) is None, "kernels only keep a processor busy"
