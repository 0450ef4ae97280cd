"""Programs that use names of 1.x are static, as there, without saying so."""

import subprocess
import sys

import pytest

TELL = "\nimport workbench; print(workbench.in_dynamic_mode())"


@pytest.mark.parametrize(
    ("script", "dynamic"),
    [
        ("import workbench", True),
        ("import workbench.fluid as fluid; fluid.Program()", False),
        ("import workbench.fluid as fluid; fluid.layers.fc(fluid.data('x', [None, 4]), 2)", False),
        ("from workbench.fluid.layers import fc", False),
        ("from workbench.fluid.optimizer import SGD", False),
        ("import workbench; workbench.disable_static()\nfrom workbench.fluid.layers import fc", True),
        ("from workbench.fluid.layers import fc\nimport workbench; workbench.disable_static()", True),
        ("from workbench.fluid import core, framework\nimport workbench.fluid.dygraph", True),
        ("import workbench.fluid as fluid", True),
    ],
)
def test_what_a_script_uses_first_chooses_the_mode(script: str, dynamic: bool) -> None:
    done = subprocess.run(
        [sys.executable, "-c", script + TELL], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stdout == f"{dynamic}\n", done.stderr
