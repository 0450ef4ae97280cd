"""Backward passes that compute values twice instead of keeping them: the same bits, less memory."""

from typing import Any

import numpy as np
import pytest

import workbench as wb
from workbench import static
from workbench.errors import InvalidArgument, InvalidForm, InvalidType, NotFound, PreconditionNotMet
from workbench.fluid.optimizer import SGD, RecomputeOptimizer
from workbench.graph.strategy import BuildStrategy

F = wb.nn.functional


@pytest.fixture(autouse=True)
def _static() -> Any:
    wb.enable_static()
    with static.scope_guard(static.Scope()):
        yield
    wb.disable_static()


def plain(h: Any) -> Any:
    return F.relu(static.nn.fc(h, 16, activation="tanh"))


def dropping(h: Any) -> Any:
    return F.dropout(static.nn.fc(h, 16, activation="tanh"), 0.3)


def normed(h: Any) -> Any:
    return static.nn.batch_norm(static.nn.fc(h, 16), act="relu")


def branching(h: Any) -> Any:
    side = wb.tanh(h)
    return static.nn.fc(h * side, 16, activation="sigmoid") + side


BLOCKS = {f.__name__: f for f in (plain, dropping, normed, branching)}


def model(block: Any, depth: int = 6, every: int = 2) -> tuple[Any, Any, Any, list[Any]]:
    main, startup = static.Program(), static.Program()
    main.random_seed = startup.random_seed = 11
    with wb.utils.unique_name.guard(), static.program_guard(main, startup):
        h, kept = static.data("x", [None, 16]), []
        for i in range(depth):
            h = block(h)
            kept += [h] if i % every == every - 1 else []
        return main, startup, wb.mean(h * h), kept


def trained(block: Any, recomputes: bool, devices: int, steps: int = 3, threads: int = 0) -> tuple[list[Any], int]:
    """What two steps fetch, what all persistable variables come to, and bytes of temporaries."""
    main, startup, loss, kept = model(block)
    with static.program_guard(main, startup):
        optimizer: Any = SGD(0.1)
        if recomputes:
            optimizer = RecomputeOptimizer(optimizer)
            optimizer._set_checkpoints(kept)
        optimizer.minimize(loss)
    executor, scope = static.Executor(), static.Scope()
    executor.run(startup, scope=scope)
    execution = static.ExecutionStrategy()
    execution.num_threads = threads
    compiled = static.CompiledProgram(main).with_data_parallel(
        loss_name=loss.name, places=static.cpu_places(devices), exec_strategy=execution
    )
    rng = np.random.default_rng(5)
    values = []
    for _ in range(steps):
        feed = {"x": rng.normal(size=(64, 16)).astype(np.float32)}
        values += executor.run(compiled, feed=feed, fetch_list=[loss], scope=scope)
    names = sorted(v.name for v in main.persistables())
    values += [np.array(scope.find_var(name).get_tensor()) for name in names]
    return values, sum(compiled.inspection.plans[-1].memory.sizes.values())


@pytest.mark.parametrize("devices", [1, 2])
@pytest.mark.parametrize("name", BLOCKS)
def test_parameters_have_the_same_bits(name: str, devices: int) -> None:
    for one, other in zip(trained(BLOCKS[name], True, devices)[0], trained(BLOCKS[name], False, devices)[0]):
        np.testing.assert_array_equal(one, other)


def test_the_interpreter_says_the_same(reference: None) -> None:
    main, startup, loss, kept = model(dropping)
    with static.program_guard(main, startup):
        pairs = static.append_backward(loss, checkpoints=kept)
    other, _, plain_loss, _ = model(dropping)
    with static.program_guard(other, startup):
        others = static.append_backward(plain_loss)
    executor = static.Executor()
    executor.run(startup)
    feed = {"x": np.random.default_rng(0).normal(size=(8, 16)).astype(np.float32)}
    gradients = [executor.run(program, feed=feed, fetch_list=[g for _, g in p]) for program, p in ((main, pairs),)]
    executor.run(startup)
    wanted = executor.run(other, feed=feed, fetch_list=[g for _, g in others])
    for one, two in zip(gradients[0], wanted, strict=True):
        np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize("threads", [1, 4])
def test_memory_falls_whatever_the_number_of_threads(threads: int) -> None:
    assert trained(dropping, True, 1, 1, threads)[1] < 0.75 * trained(dropping, False, 1, 1, threads)[1]


LENGTH, WIDTH = 256, 32


def encoder(recomputes: bool, fused: bool | None) -> tuple[list[Any], int]:
    """Losses and parameters of two steps of layers with dropout and one mask, and bytes of temporaries."""
    main, startup = static.Program(), static.Program()
    main.random_seed = startup.random_seed = 7
    with wb.utils.unique_name.guard(), static.program_guard(main, startup):
        h, kept = static.data("x", [None, LENGTH, WIDTH]), []
        mask = wb.assign(np.triu(np.full((LENGTH, LENGTH), -1e9, np.float32), 1))
        for _ in range(3):
            h = wb.nn.TransformerEncoderLayer(WIDTH, 4, 2 * WIDTH, dropout=0.2, attn_dropout=0.0)(h, mask)
            kept.append(h)
        loss, optimizer = wb.mean(h * h), wb.optimizer.Adam(0.01)
        if recomputes:
            recomputing = RecomputeOptimizer(optimizer)
            recomputing._set_checkpoints(kept)
            recomputing.minimize(loss)
        else:
            optimizer.minimize(loss)
    executor, scope, strategy = static.Executor(), static.Scope(), BuildStrategy()
    strategy.fused_attention = fused
    executor.run(startup, scope=scope)
    compiled = static.CompiledProgram(main).with_data_parallel(
        loss_name=loss.name, places=static.cpu_places(1), build_strategy=strategy
    )
    feed = {"x": np.random.default_rng(5).standard_normal((2, LENGTH, WIDTH), np.float32)}
    values = [executor.run(compiled, feed=feed, fetch_list=[loss], scope=scope)[0] for _ in range(2)]
    values += [np.array(scope.find_var(v.name).get_tensor()) for v in sorted(main.persistables(), key=lambda v: v.name)]
    return values, sum(compiled.inspection.plans[-1].memory.sizes.values())


@pytest.mark.parametrize("fused", [None, False])
def test_memory_of_an_encoder_falls_and_no_bit_changes(fused: bool | None) -> None:
    values, nbytes = encoder(True, fused)
    others, more = encoder(False, fused)
    assert nbytes < 0.7 * more
    for one, other in zip(values, others, strict=True):
        np.testing.assert_array_equal(one, other)


def test_what_several_segments_read_is_kept() -> None:
    main, startup = static.Program(), static.Program()
    with wb.utils.unique_name.guard(), static.program_guard(main, startup):
        h, kept = static.data("x", [None, 16]), []
        shared = wb.tanh(static.nn.fc(h, 16, name="shared"))
        for _ in range(3):
            h = F.relu(static.nn.fc(h, 16)) * shared
            kept.append(h)
        static.append_backward(wb.mean(h), checkpoints=kept)
    copied = {name for op in main.all_ops() for name in op.output_arg_names if "@RECOMPUTED" in name}
    assert f"{shared.name}@RECOMPUTED" not in copied and "fc_0.tmp_1@RECOMPUTED" in copied
    begin = next(i for i, op in enumerate(main.global_block().ops) if op.role == 0x101)
    order = [name for op in main.global_block().ops[begin:] for name in op.output_arg_names]
    assert order.index("fc_1.tmp_1@GRAD") < order.index("fc_0.tmp_1@RECOMPUTED")


def test_what_lies_between_checkpoints_is_copied_late_and_once() -> None:
    main, startup, loss, kept = model(plain, depth=4)
    with static.program_guard(main, startup):
        static.append_backward(loss, checkpoints=kept)
    ops = main.global_block().ops
    copies = [i for i, op in enumerate(ops) if any("@RECOMPUTED" in n for n in op.output_arg_names)]
    names = [n for i in copies for n in ops[i].output_arg_names]
    assert len(names) == len(set(names)) and all(ops[i].role == 1 for i in copies)
    begin = next(i for i, op in enumerate(ops) if op.role == 0x101)
    first = next(i for i in copies if "fc_2" in ops[i].output_arg_names[0])
    assert begin < first < next(i for i in copies if "fc_0" in ops[i].output_arg_names[0])
    kept_names = {v.name for v in kept}
    assert not any(n.removesuffix("@RECOMPUTED") in kept_names for n in names)
    late = {n for op in ops[begin:] for s, given in op.inputs.items() if s not in op.record.shape_only for n in given}
    assert "fc_0.tmp_2" not in late and "fc_0.tmp_2@RECOMPUTED" in late


def test_a_graph_has_edges_that_keep_copies_late() -> None:
    from workbench.graph.build import build_graph
    from workbench.graph.passes.recompute_late import RecomputeLate

    main, startup, loss, kept = model(plain, depth=4)
    with static.program_guard(main, startup):
        static.append_backward(loss, checkpoints=kept)
    graph = build_graph(main, static.cpu_places(2), BuildStrategy().resolved(devices=2))
    assert RecomputeLate()(graph)
    heads = [node for node in graph.nodes if any(v.name == "fc_0.tmp_0@RECOMPUTED" for v in node.writes)]
    assert len(heads) == 2
    for node in heads:
        (before,) = node.after
        assert before.places == node.places and before.type.endswith("_grad")
    assert not RecomputeLate()(graph)  # a second time changes nothing


def test_a_test_program_has_no_copies() -> None:
    main, startup, loss, kept = model(dropping)
    with static.program_guard(main, startup):
        static.append_backward(loss, checkpoints=kept)
    assert not any("@RECOMPUTED" in v.name for v in main.clone(for_test=True).list_vars())
    read_back = static.Program.parse_from_string(main.serialize_to_string())
    assert [op.type for op in read_back.all_ops()] == [op.type for op in main.all_ops()]


def test_wrong_checkpoints_are_refused_and_change_nothing() -> None:
    main, startup, loss, _ = model(plain)
    before = main.to_string()
    with static.program_guard(main, startup):
        with pytest.raises(NotFound, match="fc_9"):
            static.append_backward(loss, checkpoints=["fc_9"])
        with pytest.raises(InvalidArgument, match="no operator"):
            static.append_backward(loss, checkpoints=["x"])
        with pytest.raises(InvalidType, match="Variables"):
            static.append_backward(loss, checkpoints=[3])
        optimizer = RecomputeOptimizer(SGD(0.1))
        with pytest.raises(PreconditionNotMet, match="_set_checkpoints"):
            optimizer.minimize(loss)
        with pytest.raises(InvalidForm, match="list"):
            optimizer._set_checkpoints("fc_0")
        with pytest.raises(InvalidType, match="optimizer"):
            RecomputeOptimizer(3)
    assert main.to_string() == before
