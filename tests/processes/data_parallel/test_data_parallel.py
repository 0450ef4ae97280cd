"""`DataParallel` on two processes: rules D-1 … D-13, each in a test named after it.

One job runs `rules.py` on two ranks; what every rule left there is compared here with what NumPy says.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.processes.ranks import run_ranks
from workbench.errors import InvalidArgument
from workbench.parallel.data_parallel import fused
from workbench.parallel.data_parallel.buckets import Travelling, bucket_members
from workbench.parallel.data_parallel.layer import NotConnected

RULES = Path(__file__).with_name("rules.py")


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """`told[rule]` is what both ranks have to say."""
    job = run_ranks(RULES.read_text(), ranks=2, timeout=150)
    assert job.code == 0, str(job)
    ranks = [json.loads(output) for output in job.outputs]
    return {rule: [rank[rule] for rank in ranks] for rule in ranks[0]}


def test_rule_d_1_alone_it_is_the_model_with_a_notice() -> None:
    model = wb.nn.Linear(2, 1)
    with pytest.warns(UserWarning, match="started alone"):
        wrapped = wb.DataParallel(model)
    x = wb.rand([3, 2])
    wrapped(x).sum().backward()
    assert np.array_equal(wrapped(x).numpy(), model(x).numpy())
    assert np.allclose(model.weight.grad.numpy()[:, 0], x.numpy().sum(0))


def test_a_model_that_each_process_trains_for_itself_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    layer = wb.nn.Linear(2, 1)
    model, sgd = wb.Model(layer), wb.optimizer.SGD(0.1, parameters=layer.parameters())
    model.prepare(sgd, wb.nn.MSELoss())  # alone: nothing to tell, and a warning would be an error
    monkeypatch.setenv("PADDLE_TRAINER_ID", "1")
    monkeypatch.setenv("PADDLE_TRAINERS_NUM", "2")
    with pytest.warns(UserWarning, match=r"each of the 2 processes trains .*rank 1 .*\n.*Model\(DataParallel"):
        model.prepare(sgd, wb.nn.MSELoss())


def test_rule_d_1_what_is_missing_is_an_assertion_error(monkeypatch: pytest.MonkeyPatch) -> None:
    frozen = wb.nn.Linear(2, 1)
    for parameter in frozen.parameters():
        parameter.stop_gradient = True
    with pytest.raises(AssertionError, match="no parameter that is trained"):
        wb.DataParallel(frozen)
    monkeypatch.setenv("PADDLE_TRAINERS_NUM", "2")
    monkeypatch.setenv("PADDLE_TRAINER_ID", "0")
    with pytest.raises(NotConnected, match="init_parallel_env") as caught:
        wb.DataParallel(wb.nn.Linear(2, 1))
    assert isinstance(caught.value, AssertionError)
    wb.enable_static()
    try:
        with pytest.raises(AssertionError, match="dynamic mode"):
            wb.DataParallel(wb.nn.Linear(2, 1))
    finally:
        wb.disable_static()


@pytest.mark.processes
def test_rule_d_2_parameters_and_buffers_begin_as_those_of_rank_0(told: Any) -> None:
    first, second = told["d_2"]
    assert first["before"] != second["before"] and first["before"] == first["after"] == second["after"]
    assert first["buffer"] == second["buffer"] == [1.0, 1.0]
    assert first["statistics"] != second["statistics"]  # later each process has its own


@pytest.mark.processes
def test_rule_d_3_gradients_are_means_whatever_the_batches(told: Any) -> None:
    for rank in told["d_3"]:
        assert rank["grad"] == [3.0] and rank["uneven"] == pytest.approx([(1.0 + 4.0) / 2]) and rank["scaled"] == 7.0


@pytest.mark.processes
def test_rule_d_4_all_that_has_been_added_up_is_averaged(told: Any) -> None:
    assert told["d_4"] == [{"after_no_sync": 6.0, "once": 3.0, "twice": 6.0}] * 2


@pytest.mark.processes
def test_rule_d_5_what_counts_is_where_forward_ran(told: Any) -> None:
    for rank, facts in enumerate(told["d_5"]):
        own = [2.0, 4.0][rank]
        assert facts == {
            "forward_inside": own,
            "backward_inside": 3.0,
            "after_an_error": 3.0,
            "second_backward": own + 3.0,
            "after_no_grad": own,
        }


@pytest.mark.processes
def test_rule_d_6_buckets_as_the_limits_say(told: Any) -> None:
    for rank in told["d_6"]:
        assert rank["single"] == [[f"p{i}"] for i in reversed(range(4))]
        assert rank["one"] == [["p0", "p1", "p2", "p3"]]


def test_rule_d_6_how_buckets_are_filled() -> None:
    f, d = (Travelling(dtype, 40, False) for dtype in ("float32", "float64"))
    table = Travelling("float32", 40, True)
    numbers = [f, f, d, table, f, f, f, d, f]
    assert bucket_members(numbers, range(9), 40, 100) == [[7], [6, 8], [3], [2], [1, 4, 5], [0]]
    assert bucket_members(numbers, range(9), 0, 0) == [[n] for n in reversed(range(9))]
    assert bucket_members([f, f], [1, 0], 1000, 1000) == [[1, 0]]


@pytest.mark.processes
def test_rule_d_7_buckets_follow_the_order_in_which_gradients_came(told: Any) -> None:
    for rank in told["d_7"]:
        assert rank["before"] == [["last"], ["middle"], ["first"]]
        assert rank["after"] == [["first"], ["last"], ["middle"]]  # `first` is used last, so it comes first
        assert rank["same"]


@pytest.mark.processes
def test_rule_d_8_buckets_start_in_order_while_backward_runs(told: Any) -> None:
    for rank in told["d_8"]:
        begun = [event for event in rank["events"] if event.startswith("bucket")]
        assert begun == sorted(begun) and len(begun) == 3
        assert rank["events"].index(begun[0]) < rank["events"].index("gradient of first")


@pytest.mark.processes
def test_rule_d_9_parameters_without_a_part_in_the_loss(told: Any) -> None:
    for rank, facts in enumerate(told["d_9"]):
        assert facts["unused_everywhere"] is None
        assert facts["used_on_one"] == [1.0]  # 2 there, nothing here
        assert facts["used_here_and_added_up_there"] == [7.0]
        assert facts["same_as_before"] == [[3.0], None, [3.0]]
        assert ("find_unused_parameters=True" in facts["changed"]) and ("b" in facts["changed"])
        assert facts["kind"] == ("PeerFailed" if rank else "PreconditionNotMet")
        assert facts["goes_on"] == [3.0]


@pytest.mark.processes
def test_rule_d_10_names_have_no_prefix(told: Any) -> None:
    for rank in told["d_10"]:
        assert rank["state"] == ["0.weight", "0.bias", "1.weight", "1.bias", "1._mean", "1._variance"]
        assert rank["named"][0] == "_layers.0.weight" and rank["full_name"].endswith("_data_parallel")
        assert rank["loaded"] == [0.5, 0.25]


def test_gradients_are_joined_up_to_a_size_and_only_those_of_a_dtype(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fused, "LARGEST", 40)
    sizes = [("float32", 4), ("float32", 6), ("float32", 1), ("float64", 9), ("float32", 1)]
    parameters = [wb.create_parameter([size], dtype) for dtype, size in sizes]
    for parameter in parameters:
        parameter.grad = wb.zeros_like(parameter)
    numbers = {id(parameter): number for number, parameter in enumerate(parameters)}
    batches = fused._batches(parameters)
    assert [[numbers[id(p)] for p in batch] for batch in batches] == [[0, 1], [2], [3], [4]]


@pytest.mark.processes
def test_rule_d_11_gradients_added_up_are_averaged_later(told: Any) -> None:
    for rank in told["d_11"]:
        assert rank == {"unused": None, "mean": 3.0, "again": 3.0, "frozen": None, "sparse": "dense gradients"}


@pytest.mark.processes
def test_rule_d_13_another_number_of_passes_is_an_error_that_names_bucket_and_ranks(told: Any) -> None:
    first, second = told["d_13"]
    assert "bucket 0 (p) in backward pass 2" in first["error"] and "rank 1" in first["error"]
    assert "barrier" in first["error"] + second["error"] and first["kept"] == [3.0]


@pytest.mark.processes
def test_sparse_gradients_are_joined(told: Any) -> None:
    for rank in told["sparse"]:
        expected = np.zeros((5, 2))
        for rows in ([1, 1, 2], [2, 4]):
            np.add.at(expected, rows, 0.5)
        assert rank["is_sparse"] and rank["grad"] == expected.tolist()
        assert rank["looked_up_on_one"] == [[[0.5 * (row == 1)] * 2 for row in range(rows)] for rows in (5, 3)]


@pytest.mark.processes
def test_training_on_two_processes_is_training_on_both_halves_of_a_batch(told: Any) -> None:
    for rank in told["trained"]:
        assert np.allclose(rank["weights"], rank["alone"], rtol=1e-5, atol=1e-6)
        assert rank["weights"] == told["trained"][0]["weights"]


@pytest.mark.processes
def test_sync_batch_norm_takes_its_statistics_over_all_processes(told: Any) -> None:
    """Of uneven batches; results, gradients, running statistics and what is made of them."""
    for rank in told["sync_batch_norm"]:
        for value, expected in zip(rank["over_processes"], rank["alone"], strict=True):
            assert np.allclose(value, expected, rtol=2e-4, atol=2e-5)


@pytest.mark.processes
def test_models_that_differ_are_refused_with_the_first_difference(told: Any) -> None:
    first, second = told["differ"]
    assert "another process differs" in first
    assert "weight: float32[2, 3]" in second and "weight: float32[2, 4]" in second


@pytest.mark.processes
def test_a_rank_that_fails_in_backward_is_told_to_the_others_who_go_on_together(told: Any) -> None:
    first, second = told["failure"]
    assert first["kind"] == "PeerFailed" and "rank 1" in first["error"] and "no gradient today" in first["error"]
    assert second["kind"] == "ValueError"
    assert [rank["kept"] for rank in (first, second)] == [None, None]
    assert [rank["next"] for rank in (first, second)] == [[3.0], [3.0]]


ENDS = """
import workbench as wb
from workbench import distributed as dist

dist.init_parallel_env()
net = wb.DataParallel(wb.nn.Linear(2, 1))
for _ in range(2 if dist.get_rank() == 0 else 1):
    net(wb.ones([1, 2])).sum().backward()
"""


@pytest.mark.processes
def test_rule_d_13_a_rank_that_has_ended_is_not_waited_for() -> None:
    job = run_ranks(ENDS, ranks=2, timeout=90)
    assert job.code == 1, str(job)
    assert "in backward pass 2' (float32[3], sum)" in job.errors[0]
    assert "rank 1: the end of the process" in job.errors[0]


@pytest.mark.parametrize("sizes", [{"comm_buffer_size": -1}, {"last_comm_buffer_size": "big"}])
def test_sizes_that_make_no_sense_are_refused(sizes: dict[str, Any]) -> None:
    from workbench.parallel.data_parallel.layer import _limit

    ((name, size),) = sizes.items()
    with pytest.raises(InvalidArgument, match=name):
        _limit(name, size)
