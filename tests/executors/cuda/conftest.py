"""Steps on GPUs need NVIDIA's compiler, and compiled kernels of the host that say what rows touch."""

from collections.abc import Iterator

import pytest

import workbench as wb
from workbench.cuda.compile import compiler_version


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if compiler_version() is not None:
        return
    missing = pytest.mark.skip(reason="NVIDIA's compiler is not here (pip install nvidia-cuda-nvrtc-cu12)")
    for item in items:
        if "tests/executors/cuda/" in item.path.as_posix():
            item.add_marker(missing)


@pytest.fixture(autouse=True)
def _static_mode() -> Iterator[None]:
    wb.enable_static()
    yield
    wb.disable_static()
