"""What a first cell does: import, make a tensor, use it. In a process of its own, where nothing else was imported."""

from __future__ import annotations

import subprocess
import sys


def test_operators_and_methods_work_right_after_import() -> None:
    code = "import workbench as wb; x = wb.to_tensor([1.0, 2.0]); print((x * 2 + x.sum()).tolist(), wb.mean(x).shape)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "[5.0, 7.0] []"


def test_static_data_works_right_after_import() -> None:
    code = (
        "import workbench as wb; wb.enable_static(); x = wb.static.data('x', [None, 2]);"
        "print(wb.static.Executor().run(feed={'x': [[1, 2]]}, fetch_list=[x * 2])[0].tolist())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "[[2.0, 4.0]]"
