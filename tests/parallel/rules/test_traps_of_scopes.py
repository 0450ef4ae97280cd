"""Where a naive implementation differs silently, the rows about scopes, feeds and programs."""

from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.parallel.models import batch, build, classifier, column, constant, devices, line
from tests.parallel.rules.test_traps import FOUR, B, Mode, Scale, W, building
from workbench import static
from workbench.errors import InvalidArgument, PreconditionNotMet

# Scopes and feeds


def test_trap_22_a_test_executor_that_does_not_share_sees_frozen_weights():
    model = line().start()
    train, test = model.parallel(2), model.parallel(2, program=model.test)
    test.run([], feed={"X": column(1, 1)})
    for _ in range(2):
        (w,) = train.run([W], feed=FOUR)
    (h,) = test.run(["fc_0.tmp_0"], feed={"X": column(1, 1)})
    assert h.ravel().tolist() == [w[0, 0], 1.0] and w[1, 0] != 1


def test_trap_23_editing_the_global_scope_changes_device_0_only():
    model = line().start()
    pe = model.parallel(2)
    pe.run([], feed=FOUR)
    with static.scope_guard(model.scope):
        static.global_scope().find_var(W).get_tensor().set(np.full((1, 1), 0.75, np.float32))
    (w,) = pe.run([W], feed={"X": column(0, 0)})
    assert w[0, 0] == 0.75 != w[1, 0]


def test_trap_24_a_missing_feed_is_an_error():
    """Design section 6: the real engine runs on what was fed last."""
    pe = line().start().parallel(2)
    pe.run([], feed=FOUR)
    with pytest.raises(InvalidArgument, match="feed 'X' is missing"):
        pe.run([])


def test_trap_25_a_declared_batch_is_each_devices():
    def body() -> Any:
        return wb.mean(static.nn.fc(static.data("X", [2, 1]), 1))

    model = build(body, wb.optimizer.SGD(0.1)).start()
    assert model.parallel(2).run([model.loss], feed=FOUR)[0].shape == (2,)
    with pytest.raises(ValueError, match="each device"):
        model.parallel(2).run([model.loss], feed={"X": column(0, 1)})


def test_trap_26_a_program_changed_after_the_executor_was_made():
    model = line().start()
    pe = model.parallel(2)
    with devices(2):
        compiled = static.CompiledProgram(model.main).with_data_parallel(loss_name=model.loss.name)
    with static.program_guard(model.main):
        late = wb.scale(model.loss, 2.0)
    with pytest.raises(PreconditionNotMet, match="appended after"):
        pe.run([late], feed=FOUR)
    with pytest.raises(PreconditionNotMet, match="appended after"):
        static.Executor().run(compiled, FOUR, [late], scope=model.scope)


def test_trap_27_reduce_begins_with_the_owner():
    """Seeds 1e8, -1e8, 1 on three devices; the bias of the first layer belongs to device 2: (1 + 1e8) - 1e8 = 0."""

    def body() -> Any:
        h = static.data("X", [None, 1])
        for _ in range(2):
            h = static.nn.fc(h, 1, weight_attr=constant(1.0), bias_attr=constant(0.0))
        return wb.mean(h)

    gradients = {}
    for mode in Mode:
        model = build(body, wb.optimizer.SGD(0.1)).start()
        strategy = building(reduce_strategy=mode, gradient_scale_strategy=Scale.Customized)
        feed = {"X": column(1, 1, 1), model.loss.name + "@GRAD": np.array([1e8, -1e8, 1], np.float32)}
        (g,) = model.parallel(3, build_strategy=strategy).run([B + "@GRAD"], feed=feed)
        gradients[mode] = g[2]
    assert gradients == {Mode.AllReduce: 1, Mode.Reduce: 0}


@pytest.mark.parametrize("mode", list(Mode))
def test_trap_28_sparse_gradients_stay_rows(mode):
    """Lazy Adam leaves the state of rows alone that nobody read; a dense gradient would let their moments decay."""

    def body() -> Any:
        ids = static.data("ids", [None, 1], "int64")
        return wb.mean(static.nn.embedding(ids, [5, 2], is_sparse=True))

    model = build(body, wb.optimizer.Adam(0.1, lazy_mode=True)).start()
    pe = model.parallel(2, build_strategy=building(reduce_strategy=mode))
    table, moment = "embedding_0.w_0", "embedding_0.w_0_moment1_0"
    pe.run([], feed={"ids": np.array([[0], [1], [1], [2]])})
    before = model.value(table), model.value(moment)
    assert (before[1][:3] != 0).all() and (before[1][3:] == 0).all()
    pe.run([], feed={"ids": np.array([[3], [3], [3], [4]])})
    for name, old in zip((table, moment), before):
        new = model.value(name)
        np.testing.assert_array_equal(new[:3], old[:3], err_msg=name)
        assert (new[3:] != old[3:]).all(), name


def test_trap_29_unmerged_tensors_do_not_alias_live_buffers():
    """In the real engine they do; here every result is a copy that never changes."""
    model = line().start()
    compiled = static.CompiledProgram(model.main)
    compiled.with_data_parallel(loss_name=model.loss.name, places=static.cpu_places(2))
    options = {"scope": model.scope, "return_merged": False, "return_numpy": False}
    ((first, second),) = static.Executor().run(compiled, FOUR, [W], **options)
    kept = first.numpy(), second.numpy()
    static.Executor().run(compiled, FOUR, [W], **options)
    np.testing.assert_array_equal((first.numpy(), second.numpy()), kept)
    assert (model.value(W) != kept[0]).all()


# Programs


def test_trap_34_updates_come_in_the_order_of_names():
    def body() -> Any:
        h = static.data("X", [None, 1])
        for _ in range(11):
            h = static.nn.fc(h, 1, bias_attr=False)
        return wb.mean(h)

    model = build(body, wb.optimizer.SGD(0.1)).start()
    names = [op.inputs["Param"][0] for op in model.main.global_block().ops if op.type == "sgd"]
    assert names == sorted(names) and names.index("fc_10.w_0") < names.index("fc_2.w_0")
    assert np.isfinite(model.parallel(2).run([model.loss], feed=FOUR)[0]).all()


def test_trap_35_seeded_initialisers_of_one_shape():
    """Design section 6: streams are distinct; with a flag equal shapes get equal values, as in Paddle."""

    def body() -> Any:
        h = static.data("X", [None, 3])
        for _ in range(2):
            h = static.nn.fc(h, 3)
        return wb.mean(h)

    for paddle, equal in ((False, False), (True, True)):
        with wb.config.override(paddle_seed_semantics=paddle):
            model = build(body, seed=5).start()
        assert (model.value(W) == model.value("fc_1.w_0")).all() == equal


def test_trap_36_clone_for_test_only_flips_is_test():
    def body() -> Any:
        h = static.nn.batch_norm(static.nn.fc(static.data("X", [None, 1]), 2))
        return wb.mean(wb.nn.functional.dropout(h, 0.5))

    model = build(body)
    pairs = list(zip(model.main.global_block().ops, model.test.global_block().ops, strict=True))
    for ours, theirs in pairs:
        assert ours.type == theirs.type
        changed = {name for name, value in ours.attrs.items() if theirs.attrs[name] != value}
        assert changed <= {"is_test"} and theirs.attrs.get("is_test", True) is True
    (norm,) = (op for _, op in pairs if op.type == "batch_norm")
    assert norm.attrs["use_global_stats"] is False


def test_trap_37_reduce_mode_with_clip_works():
    """The real engine fails to build the graph (design section 6)."""
    states = []
    for mode in Mode:
        model = classifier(wb.optimizer.SGD(0.1, grad_clip=wb.nn.ClipGradByGlobalNorm(0.01))).start()
        pe = model.parallel(2, build_strategy=building(reduce_strategy=mode))
        for k in range(3):
            pe.run([], feed=batch(8, k))
        states.append(model.values())
    for name, value in states[0].items():
        np.testing.assert_array_equal(states[1][name], value, err_msg=name)


def test_trap_38_a_stale_loss_name_is_an_error():
    """Design section 6: the real engine takes any name that is not empty."""
    for name in ("mean_7.tmp_0", "fc_0.tmp_0"):
        with pytest.raises(InvalidArgument, match="loss_name"):
            line().parallel(2, loss_name=name)
