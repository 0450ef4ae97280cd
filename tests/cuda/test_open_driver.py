"""Which body of the CUDA driver is opened: what the flags choose, and what a user without a GPU is told."""

from __future__ import annotations

import inspect

import pytest

from workbench.config import override
from workbench.cuda import chosen_driver, open_driver
from workbench.cuda.driver import CudaDriver
from workbench.cuda.simulated.device import SimulatedDriver
from workbench.errors import InvalidArgument, Unavailable
from workbench.runtime import devices


@pytest.fixture(autouse=True)
def _no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "load_driver", lambda: None)


def test_without_a_gpu_one_error_says_what_is_missing_and_names_the_flag() -> None:
    with pytest.raises(Unavailable, match=r"driver: libcuda\.so\.1 .*") as caught:
        open_driver()
    assert str(caught.value).splitlines()[-1].startswith("FLAGS_simulated_gpus=2 runs")
    with override(cuda_driver="cupy", simulated_gpus=2), pytest.raises(Unavailable):
        chosen_driver()


def test_simulated_devices_are_taken_where_they_are_asked_for() -> None:
    with override(simulated_gpus=2):
        assert chosen_driver() == "simulated"
    with override(simulated_gpus=1, cuda_driver="simulated"):
        assert chosen_driver() == "simulated"


@pytest.mark.parametrize(("driver", "count"), [("simulated", 0), ("auto", -1), ("cupy", -1)])
def test_flags_that_do_not_fit_together(driver: str, count: int) -> None:
    with override(cuda_driver=driver, simulated_gpus=count), pytest.raises(InvalidArgument, match="1 or more"):
        chosen_driver()


def test_where_nothing_is_missing_the_gpus_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "missing_for_gpu", list)
    assert chosen_driver() == "cupy"


def test_a_machine_is_opened_once() -> None:
    with override(simulated_gpus=3):
        assert open_driver() is open_driver() and open_driver().device_count() == 3
        assert open_driver().properties(2).architecture == "sm_80"


def test_the_simulated_body_offers_the_whole_interface() -> None:
    own = {name: inspect.signature(call) for name, call in vars(SimulatedDriver).items() if callable(call)}
    asked = {name: inspect.signature(call) for name, call in vars(CudaDriver).items() if name[0] != "_"}
    assert {name: own.get(name) for name in asked} == asked
