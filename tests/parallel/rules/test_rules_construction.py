"""ParallelExecutor: construction (rules X-0 … X-8)."""

import os
import subprocess
import sys
import warnings

import pytest

import workbench as wb
from tests.parallel.lowerings import in_both, same_numbers
from tests.parallel.models import batch, build, classifier, column, devices, line
from workbench import static
from workbench.errors import EnforceNotMet, InvalidArgument, PreconditionNotMet


@in_both
def test_x_0_one_device_equals_the_plain_executor():
    one, plain = (classifier(wb.optimizer.Momentum(0.1, 0.9)).start() for _ in range(2))
    exe, pe = static.Executor(), one.parallel(1)
    for k in range(3):
        mine = pe.run([one.loss], feed=batch(8, k))
        theirs = exe.run(plain.main, feed=batch(8, k), fetch_list=[plain.loss], scope=plain.scope)
        same_numbers(mine[0], theirs[0])
    for name, value in plain.values().items():
        same_numbers(one.value(name), value, name)


def test_x_0_one_device_has_no_collectives_and_the_seed_is_one():
    model = line().start()
    pe = model.parallel(1)
    (seed,) = pe.run([model.loss.name + "@GRAD"], feed={"X": column(1, 2)})
    assert seed.tolist() == [1.0]
    assert not pe.inspection.graph([]).collectives()


def test_x_1_signature():
    import inspect

    names = list(inspect.signature(static.ParallelExecutor).parameters)
    assert names == [
        "use_cuda", "loss_name", "main_program", "share_vars_from", "exec_strategy", "build_strategy", "num_trainers",
        "trainer_id", "scope",
    ]  # fmt: skip
    assert list(inspect.signature(static.ParallelExecutor.run).parameters)[1:] == [
        "fetch_list", "feed", "feed_dict", "return_numpy",
    ]  # fmt: skip


@pytest.mark.parametrize("count", [1, 2, 4, 8])
def test_x_2_cpu_num_gives_the_devices(count):
    assert line().parallel(count).device_count == count


def test_x_2_use_cuda_without_a_gpu_says_what_is_missing():
    model = line().start()
    with pytest.raises(EnforceNotMet, match=r"(?i)driver|cupy|GPU"):
        static.ParallelExecutor(True, loss_name=model.loss.name, main_program=model.main, scope=model.scope)


def test_x_3_the_program_is_a_snapshot():
    model = line().start()
    pe = model.parallel(2)
    with static.program_guard(model.main, model.startup):
        late = wb.scale(model.loss, 2.0)
    pe.run([model.loss], feed={"X": column(1, 2)})
    with pytest.raises(PreconditionNotMet, match="appended after"):
        pe.run([late], feed={"X": column(1, 2)})


@pytest.mark.parametrize("name", [None, ""])
def test_x_4_a_missing_loss_name_is_an_error(name):
    model = line()
    with pytest.raises(AssertionError, match="loss_name"):
        model.parallel(2, loss_name=name)


def test_x_4_an_unknown_loss_name_is_an_error():
    """Design section 6: the real engine accepts any name (trap 38)."""
    with pytest.raises(InvalidArgument, match=r"mean_0.tmp_1.*Did you mean"):
        line().parallel(2, loss_name="mean_0.tmp_1")


def test_x_4_another_variable_than_the_loss_is_an_error():
    with pytest.raises(InvalidArgument, match="not the loss"):
        line().parallel(2, loss_name="fc_0.tmp_0")


def test_x_4_inference_needs_no_loss_name():
    model = line().start()
    pe = model.parallel(2, program=model.test)
    (fetched,) = pe.run([model.loss], feed={"X": column(1, 3)})
    assert fetched.tolist() == [1.0, 3.0]


def test_x_5_share_vars_from_takes_a_parallel_executor():
    with pytest.raises(AssertionError, match="share_vars_from"):
        line().parallel(2, share_vars_from="nobody")


def test_x_5_the_sharer_has_to_run_first():
    model = line().start()
    train = model.parallel(2)
    test = model.parallel(2, program=model.test, share_vars_from=train)
    with pytest.raises(ValueError, match="run once before"):
        test.run([model.loss], feed={"X": column(1, 2)})


def test_x_5_the_device_counts_agree():
    model = line().start()
    train = model.parallel(2)
    train.run([], feed={"X": column(1, 2)})
    with pytest.raises(EnforceNotMet, match="on 2 devices, this executor on 4"):
        model.parallel(4, program=model.test, share_vars_from=train).run([], feed={"X": column(1, 2, 3, 4)})


def test_x_6_trainers_of_the_executor_replace_those_of_the_strategy():
    model, strategy = line().start(), static.BuildStrategy()
    with pytest.warns(UserWarning, match="num_trainers=2"):
        pe = model.parallel(2, build_strategy=strategy, num_trainers=2, trainer_id=1)
    assert (strategy.num_trainers, strategy.trainer_id) == (2, 1)
    with pytest.raises(EnforceNotMet, match="process group"):
        pe.run([], feed={"X": column(1, 2)})


def test_x_6_where_no_strategy_was_given_nothing_is_replaced():
    model = line().start()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.parallel(2, num_trainers=2, trainer_id=1)


def test_x_7_dropping_before_the_first_run_is_a_type_error():
    with pytest.raises(TypeError, match="first run"):
        line().parallel(2).drop_local_exe_scopes()


def test_x_8_a_compiled_program_stays_with_its_first_scope():
    model = line().start()
    with devices(2):
        compiled = static.CompiledProgram(model.main).with_data_parallel(loss_name=model.loss.name)
        exe = static.Executor()
        exe.run(compiled, feed={"X": column(1, 2)}, fetch_list=[model.loss], scope=model.scope)
        with pytest.raises(ValueError, match="scope and place"):
            exe.run(compiled, feed={"X": column(1, 2)}, fetch_list=[model.loss], scope=static.Scope())


def test_wrong_arguments_are_named():
    model = line()
    with pytest.raises(TypeError, match="build_strategy takes a BuildStrategy"):
        model.parallel(2, build_strategy=3)
    with pytest.raises(TypeError, match="exec_strategy takes a ExecutionStrategy"):
        model.parallel(2, exec_strategy=3)
    with pytest.raises(TypeError, match="main_program takes a Program"):
        static.ParallelExecutor(False, main_program=3)


def test_nothing_is_compiled_before_the_first_run():
    def broken():
        x = static.data("X", [None, 2])
        return wb.mean(wb.nn.functional.embedding(wb.cast(x, "int64"), static.create_parameter([3, 2], "float32")))

    model = build(broken, wb.optimizer.SGD(0.1))
    assert model.parallel(2).device_count == 2  # no parameter is initialised yet


def test_cpu_num_unset_is_set_to_one_with_one_notice():
    code = (
        "import os; os.environ.pop('CPU_NUM', None)\n"
        "import workbench as wb; wb.enable_static()\n"
        "print(len(wb.static.cpu_places()), os.environ['CPU_NUM'])"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=_without_cpu_num())
    assert done.stdout.split() == ["1", "1"], done.stderr
    assert done.stderr.count("CPU_NUM") >= 1


def _without_cpu_num():
    return {k: v for k, v in os.environ.items() if k != "CPU_NUM"}
