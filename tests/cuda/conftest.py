"""Tests of the CUDA backend need NVIDIA's compiler; without it they say so and are skipped."""

import pytest

from workbench.cuda.compile import compiler_version

WITHOUT_COMPILER = {
    "test_cupy_names.py", "test_driver_words.py", "test_address_space.py", "test_streams.py", "test_graphs.py",
    "test_nccl.py", "test_products.py", "test_open_driver.py", "test_coverage.py",
}  # fmt: skip


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if compiler_version() is not None:
        return
    missing = pytest.mark.skip(reason="NVIDIA's compiler is not here (pip install nvidia-cuda-nvrtc-cu12)")
    for item in items:
        if "tests/cuda/" in item.path.as_posix() and item.path.name not in WITHOUT_COMPILER:
            item.add_marker(missing)
