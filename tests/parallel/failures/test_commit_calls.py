"""What a commit does: which updates it makes, and that nothing is bound or looked up twice for it."""

from unittest import mock

import numpy as np
import pytest

import workbench as wb
from tests.parallel.lowerings import on_tapes, same_numbers
from tests.parallel.models import Model, batch, build, classifier
from workbench import static
from workbench.errors import ExecutionError
from workbench.executors.lowering.numpy import lower_updates
from workbench.executors.lowering.tape.registry import ANY_UPDATE, RULES


def adam() -> Model:
    return classifier(wb.optimizer.Adam(0.1)).start()


@pytest.mark.parametrize("devices", [1, 2])
def test_a_step_is_bound_once(devices, lowering):
    """Nothing of a plan is looked up, or allocated, again while nobody but the executor writes the scope."""
    executor = adam().parallel(devices)
    executor.run([], feed=batch())
    (first,) = executor.inspection.bindings
    for step in range(3):
        executor.run([], feed=batch(8, step))
    (last,) = executor.inspection.bindings
    assert last is first and first.storage.is_current()


def test_a_step_that_was_left_in_the_middle_is_put_in_order_before_the_next(lowering):
    """Ctrl-C that came a second time may have ended what the first one had to wait for."""
    model, same_model = adam(), adam()
    disturbed, calm = model.parallel(2), same_model.parallel(2)
    for step in range(5):
        if step >= 2:
            disturbed.inspection.last_step.is_open = True
        disturbed.run([], feed=batch(8, step))
        calm.run([], feed=batch(8, step))
    assert not disturbed.inspection.last_step.is_open
    assert all(np.array_equal(v, model.value(k)) for k, v in same_model.values().items())


def test_a_thread_that_has_not_begun_is_at_its_first_row(lowering):
    executor = adam().parallel(1)
    executor.run([], feed=batch())
    program = executor.inspection.last.speculative[0]
    program.task.rewind()
    program.rewind()
    assert program.current_row() is program.row_of(0) and program.failed_row() is None


def test_updates_of_half_precision_are_made_aside():
    """They are computed in float32 and rounded; the scope has float16."""

    def body():
        x, w = static.data("x", [None, 4], "float16"), static.create_parameter([4, 2], "float16")
        return wb.mean(wb.matmul(x, w))

    model = build(body, wb.optimizer.SGD(0.5)).start()
    (name,) = (p.name for p in model.main.all_parameters())
    before, executor = model.value(name), model.parallel(2)
    executor.run([], feed={"x": np.ones((4, 4), np.float16)})
    (binding,) = executor.inspection.bindings
    assert not binding.plan.commit and [v.name for v in binding.plan.staged] == [name, name]
    np.testing.assert_array_equal(before - model.value(name), np.full((4, 2), 0.25, np.float16))  # lr / columns


@pytest.mark.parametrize("power", ["beta1_pow_acc", "beta2_pow_acc"])
def test_one_power_that_differs_is_enough_to_update_each_parameter_on_its_own(power, lowering):
    """Then what the parameters have in common is not enough to compute them together, though the other power agrees."""
    alone, reference = adam(), adam()
    names = [v.name for v in alone.main.persistables() if power in v.name]
    assert len(names) == 4
    executor, serial = alone.parallel(1), static.Executor()
    for step in range(4):
        if step == 2:
            for model in (alone, reference):
                model.scope.find_var(names[1]).get_tensor().set(np.full(1, 0.25, np.float32))
        executor.run([], feed=batch(8, step))
        serial.run(reference.main, feed=batch(8, step), scope=reference.scope)
    for name, value in reference.values().items():
        same_numbers(alone.value(name), value, name)


@on_tapes
@pytest.mark.parametrize("at", [1, 3])
def test_an_update_that_raises_in_the_commit_is_made_again_and_those_before_it_are_not(at):
    """Powers that differ are left to NumPy, one parameter after the other; there may be no memory for one of them."""
    disturbed, calm = adam(), adam()
    for model in (disturbed, calm):
        model.executor = model.parallel(1)
        model.executor.run([], feed=batch())
        (name, *_) = (v.name for v in model.main.persistables() if "beta1_pow_acc" in v.name)
        power = model.scope.find_var(name).get_tensor()
        power.set(np.asarray(model.value(name)) / np.float32(0.9))  # that of the step before: after one more it agrees
    calm.executor.run([], feed=batch(8, 1))
    updates, update = [], lower_updates._update

    def update_or_not(*operands):
        updates.append(operands)
        if len(updates) == at + 1:
            raise MemoryError("no room")
        update(*operands)

    with (
        mock.patch.object(lower_updates, "_update", update_or_not),
        pytest.raises(ExecutionError, match="applied whole"),
    ):
        disturbed.executor.run([], feed=batch(8, 1))
    assert len(updates) == 5  # four parameters, and one of them twice
    for name, value in calm.values().items():
        assert np.array_equal(disturbed.value(name), value), name


def test_an_update_without_kernels_is_made_aside(lowering):
    """NumPy allocates, and the body may be anybody's; the commit does neither."""
    same_model = classifier().start()
    same_model.parallel(1).run([], feed=batch())
    with mock.patch.dict(RULES):
        del RULES[ANY_UPDATE], RULES["fused_update"]
        model = classifier().start()
        executor = model.parallel(1)
        executor.run([], feed=batch())
    (binding,) = executor.inspection.bindings
    parameters = sorted(p.name for p in model.main.all_parameters())
    assert not binding.plan.commit and sorted(v.name for v in binding.plan.staged) == parameters
    for name in parameters:
        same_numbers(model.value(name), same_model.value(name), name)


def test_a_drop_lets_go_of_what_travels_as_an_object(lowering):
    """Sparse gradients that were fetched stay until then: nobody knows how long they are before."""

    def body():
        return wb.mean(static.nn.embedding(static.data("ids", [None, 1], "int64"), [5, 4], is_sparse=True))

    executor = build(body, wb.optimizer.SGD(0.1)).start().parallel(2)
    executor.run(["embedding_0.w_0@GRAD"], feed={"ids": np.array([[1], [2]])})
    binding = executor.inspection.last
    cells = [cell for value, cell in binding.values.cells.items() if not value.persistable]
    assert any(cell.value is not None for cell in cells)
    executor.drop_local_exe_scopes()
    assert all(cell.value is None or len(cell.value.rows) == 0 for cell in cells)


@pytest.mark.parametrize("devices", [1, 2])
def test_what_a_step_is_the_first_to_give_the_scope_is_no_memory_of_the_step(devices, lowering):
    """Nor is what it gives in another shape: it stays when that memory goes."""

    def body():
        x = static.data("x", [None, 4])
        block = x.block
        block.append_op("tanh", inputs={"X": x}, outputs={"Out": block.create_var("kept", [-1, 4], persistable=True)})
        return wb.mean(x)

    model = build(body)
    executor = model.parallel(devices)
    for rows in (2, 4):
        x = np.full((rows * devices, 4), 0.5 * rows, np.float32)
        executor.run([], feed={"x": x})
        executor.drop_local_exe_scopes()
        np.testing.assert_allclose(model.value("kept"), np.tanh(x[:rows]), rtol=1e-5)


def test_every_step_draws_other_numbers_those_of_a_plain_executor(lowering):
    def body():
        return wb.nn.functional.dropout(static.data("x", [None, 64]), 0.5)

    model, reference = build(body).start(), build(body).start()
    executor, serial, feed = model.parallel(1), static.Executor(), {"x": np.ones((4, 64), np.float32)}
    drawn = set()
    for _ in range(3):
        (fetched,) = executor.run([model.loss], feed=feed)
        (wanted,) = serial.run(reference.main, feed=feed, fetch_list=[reference.loss], scope=reference.scope)
        assert np.array_equal(fetched, wanted)
        drawn.add(fetched.tobytes())
    assert len(drawn) == 3
