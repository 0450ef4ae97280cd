"""Which devices there are: CPU_NUM, FLAGS_selected_gpus, CUDA_VISIBLE_DEVICES (X-2, C-3), and what a GPU lacks."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from typing import Any

import pytest

import workbench as paddle
from workbench.config import get_flag, override, set_flags
from workbench.errors import InvalidArgument, InvalidType, Unavailable
from workbench.framework.values.place import CPUPlace, CUDAPlace
from workbench.runtime import devices
from workbench.runtime.devices import cpu_places, cuda_places, discover, missing_for_gpu, require_gpu

SELECTED = "FLAGS_selected_gpus"


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing inherited, and CPU_NUM taken back where the code sets it."""
    monkeypatch.setenv("CPU_NUM", "1")
    for name in ("CPU_NUM", "FLAGS_selected_gpus", "CUDA_VISIBLE_DEVICES"):
        monkeypatch.delenv(name, raising=False)
    devices._tell_of_cpu_num.cache_clear()


def python(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """A process of its own with CPU_NUM and the like only as given."""
    inherited = {k: v for k, v in os.environ.items() if k not in ("CPU_NUM", "FLAGS_selected_gpus")}
    return subprocess.run(
        [sys.executable, "-c", code], env=inherited | environment, capture_output=True, text=True, timeout=60
    )


# CPU


def test_c_3_a_number_of_places_whatever_the_environment_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CPU_NUM", "7")
    assert paddle.static.cpu_places(3) == [CPUPlace(0), CPUPlace(1), CPUPlace(2)]
    assert os.environ["CPU_NUM"] == "7"


@pytest.mark.parametrize("count", [1, 2, 4, 8])
def test_x_2_cpu_num_places(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CPU_NUM", f" {count} ")
    assert discover(use_cuda=False) == cpu_places() == [CPUPlace(i) for i in range(count)]


@pytest.mark.parametrize("value", ["0", "-1", "two", "1.5", "2,3", "²", "0x2", "1_0"])
def test_a_cpu_num_that_is_none_is_refused(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CPU_NUM", value)
    with pytest.raises(InvalidArgument) as caught:
        discover(use_cuda=False)
    assert "CPU_NUM" in str(caught.value) and f"got:      {value!r}" in str(caught.value)
    assert os.environ["CPU_NUM"] == value


@pytest.mark.parametrize(
    ("count", "error"),
    [(0, InvalidArgument), (-2, InvalidArgument), ("2", InvalidType), (1.0, InvalidType), (True, InvalidType)],
)
def test_a_wrong_number_of_places_is_refused(count: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match=r"cpu_places\(device_count\)\n  expected: .+\n  got:"):
        cpu_places(count)


UNSET = "import os; from workbench.runtime.devices import cpu_places; "


def test_cpu_num_unset_is_set_to_one_with_one_notice_on_standard_error() -> None:
    several = UNSET + "from workbench.runtime import devices; devices.processors = lambda: 6; "
    done = python(several + "print(cpu_places(), os.environ.pop('CPU_NUM'), cpu_places(), os.environ['CPU_NUM'])")
    assert done.stdout == "[CPUPlace()] 1 [CPUPlace()] 1\n"
    assert done.stderr.count("CPU_NUM is not set") == 1 == done.stderr.count("\n")
    assert "6 cores" in done.stderr


def test_an_empty_cpu_num_is_an_unset_one() -> None:
    done = python(UNSET + "print(cpu_places(), os.environ['CPU_NUM'])", CPU_NUM="")
    assert done.stdout == "[CPUPlace()] 1\n"


def test_no_notice_where_there_is_nothing_to_tell() -> None:
    single = UNSET + "from workbench.runtime import devices; devices.processors = lambda: 1; "
    for code, environment in ((single + "cpu_places()", {}), (UNSET + "cpu_places()", {"CPU_NUM": "2"}), (UNSET, {})):
        done = python(code, **environment)
        assert (done.stderr, done.returncode) == ("", 0)


def test_processes_that_share_the_cores_are_told_of_their_share_once() -> None:
    def told(cores: int, rank: int) -> str:
        code = UNSET + f"from workbench.runtime import devices; devices.processors = lambda: {cores}; cpu_places()"
        ranks = {"OMPI_COMM_WORLD_RANK": str(rank), "OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_LOCAL_SIZE": "2"}
        return python(code, **ranks).stderr

    assert "in each of 2 processes that share 6 cores. CPU_NUM=3" in told(6, 0) and told(6, 1) == ""
    assert told(2, 0) == told(3, 0) == ""


def test_importing_decides_nothing() -> None:
    code = "import os, workbench.static; os.environ['CPU_NUM'] = '3'; print(len(workbench.static.cpu_places()))"
    assert python(code, CPU_NUM="2").stdout == "3\n"


def test_the_processors_are_those_this_process_may_use() -> None:
    code = (
        "import os; os.sched_setaffinity(0, [min(os.sched_getaffinity(0))])\n"
        "from workbench.runtime.devices import processors; print(processors())"
    )
    if not hasattr(os, "sched_setaffinity"):
        pytest.skip("this system binds no processes to processors")
    assert python(code).stdout == "1\n"


# GPU


class Driver:
    """A libcuda with a number of GPUs, or one that fails."""

    def __init__(self, count: int = 0, status: int = 0) -> None:
        self.count, self.status = count, status

    def cuInit(self, flags: int) -> int:
        return self.status

    def cuDeviceGetCount(self, pointer: Any) -> int:
        ctypes.cast(pointer, ctypes.POINTER(ctypes.c_int))[0] = self.count
        return 0


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Any:
    """`machine(driver, cupy, nccl)`: what is installed."""

    def install(driver: Driver | None = None, cupy: bool = True, nccl: bool = True) -> None:
        monkeypatch.setattr(devices, "load_driver", lambda: driver)
        monkeypatch.setattr(devices, "find_spec", lambda name: object() if cupy and name == "cupy" else None)
        monkeypatch.setattr(devices, "_has_nccl", lambda: nccl)

    return install


@pytest.mark.parametrize(
    ("driver", "cupy", "nccl", "expected"),
    [
        (None, True, True, ["driver: libcuda.so.1 cannot be loaded"]),
        (None, False, False, ["driver: libcuda.so.1 cannot be loaded", "CuPy: pip install"]),
        (Driver(0), True, False, ["GPU: the driver shows none"]),
        (Driver(0, status=100), True, False, ["GPU: the driver shows none"]),
        (Driver(0, status=999), True, False, ["driver: it answers with CUDA error 999"]),
        (Driver(1), False, False, ["CuPy: pip install 'cupy-cuda12x"]),
        (Driver(2), True, False, ["NCCL, which several GPUs need: pip install nvidia-nccl-cu12"]),
        (Driver(2), False, False, ["CuPy:", "NCCL,"]),
        (Driver(1), True, False, []),
        (Driver(2), True, True, []),
    ],
)
def test_everything_that_is_missing_is_named(
    machine: Any, driver: Driver | None, cupy: bool, nccl: bool, expected: list[str]
) -> None:
    machine(driver, cupy, nccl)
    absent = missing_for_gpu()
    assert [line[: len(start)] for line, start in zip(absent, expected, strict=True)] == expected
    if not absent:
        require_gpu()
        return
    with pytest.raises(Unavailable) as caught:
        discover(use_cuda=True)
    assert all(line in str(caught.value) for line in absent) and "use_cuda=False" in str(caught.value)
    assert "FLAGS_simulated_gpus=2" in str(caught.value)


def test_nccl_is_for_as_many_gpus_as_are_selected(machine: Any) -> None:
    machine(Driver(4), nccl=False)
    with override(selected_gpus="2"):
        assert missing_for_gpu() == []
    with override(selected_gpus="0,3"):
        assert [line[:4] for line in missing_for_gpu()] == ["NCCL"]


def test_a_selected_gpu_that_is_not_visible(machine: Any) -> None:
    machine(Driver(2))
    with override(selected_gpus="0,2"), pytest.raises(Unavailable, match="GPU 2 of FLAGS_selected_gpus: 2 are visible"):
        require_gpu()


def test_hidden_gpus_are_told_by_the_variable_that_hides_them(machine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    machine(Driver(0, status=100))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "-1")
    with pytest.raises(Unavailable, match="shows none with CUDA_VISIBLE_DEVICES='-1'"):
        cuda_places()


def test_x_2_all_visible_gpus_unless_some_are_selected(machine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    machine(Driver(3))
    assert paddle.static.cuda_places() == [CUDAPlace(0), CUDAPlace(1), CUDAPlace(2)]
    monkeypatch.setenv("FLAGS_selected_gpus", " 2, 0 ")
    assert cuda_places() == [CUDAPlace(2), CUDAPlace(0)]
    monkeypatch.setenv("FLAGS_selected_gpus", "")
    assert len(cuda_places()) == 3


def test_named_gpus_need_nothing_on_this_machine(machine: Any) -> None:
    machine(None, cupy=False)
    assert cuda_places(1) == [CUDAPlace(1)]
    assert cuda_places([0, 2]) == cuda_places((0, 2)) == [CUDAPlace(0), CUDAPlace(2)]
    with override(selected_gpus="5"):
        assert cuda_places() == [CUDAPlace(5)]
    with pytest.raises(Unavailable, match=r"libcuda\.so\.1"):
        cuda_places()


@pytest.mark.parametrize(
    ("ids", "error"),
    [
        ([0, 0], InvalidArgument),
        (-1, InvalidArgument),
        ([0, -1], InvalidArgument),
        ("0,1", InvalidType),
        ([1.0], InvalidType),
    ],
)
def test_wrong_gpus_are_refused(ids: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        cuda_places(ids)


@pytest.mark.parametrize("value", ["0;1", "gpu0", "-1", "0,,1", "1,1"])
def test_a_selection_that_is_none_is_refused(value: str) -> None:
    with override(selected_gpus=value), pytest.raises(InvalidArgument, match="FLAGS_selected_gpus\n  expected"):
        cuda_places()


def test_the_selection_is_a_flag_and_an_environment_variable_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    assert get_flag("FLAGS_selected_gpus") == ""
    with override(selected_gpus="1"):
        assert os.environ[SELECTED] == "1"
        set_flags({"FLAGS_selected_gpus": "3"})
        assert get_flag("selected_gpus") == "3"
        os.environ[SELECTED] = "2"
        assert paddle.get_flags("FLAGS_selected_gpus") == {"FLAGS_selected_gpus": "2"}
    assert "FLAGS_selected_gpus" not in os.environ


def test_a_program_that_asks_first_gets_what_there_is() -> None:
    assert paddle.is_compiled_with_cuda() is (not missing_for_gpu())
    with override(simulated_gpus=1):
        assert paddle.is_compiled_with_cuda() is True


def test_asking_for_a_gpu_loads_no_cupy() -> None:
    code = (
        "import sys; from workbench.runtime.devices import missing_for_gpu; missing_for_gpu(); "
        "print('cupy' in sys.modules)"
    )
    assert python(code).stdout == "False\n"


def test_this_machine_is_told_of_as_it_is() -> None:
    """Without stand-ins: the driver, CuPy and NCCL of the machine the test runs on."""
    absent = " ".join(missing_for_gpu())
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        assert "libcuda.so.1" in absent
    else:
        assert "libcuda.so.1" not in absent
    if absent:
        with pytest.raises(Unavailable):
            discover(use_cuda=True)
