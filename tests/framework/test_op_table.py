"""Ops are there when a program names them, whatever was imported before."""

import subprocess
import sys

import pytest

BUILD = """
block = wb.static.Program().global_block()
block.create_var("x", [2], is_data=True)
block.append_op("scale", {"X": "x"}, {"Out": "x"}, {"scale": 2.0})
text = block.program.serialize_to_string()
"""
CHECK = """
from workbench.framework.check import check_program
from workbench.framework.program import Program
check_program(Program.parse_from_string(open(sys.argv[1]).read()))
"""
UNKNOWN = """
from workbench.framework.op import find_op
try:
    find_op("sclae")
except LookupError as error:
    assert "Did you mean 'scale'" in str(error), error
else:
    raise SystemExit("found")
"""


def run(code: str, *arguments: str) -> str:
    """The output of a fresh process, where no op has been imported."""
    lines = "import sys\nimport workbench as wb\nassert 'workbench.ops' not in sys.modules\n" + code
    done = subprocess.run([sys.executable, "-c", lines, *arguments], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("code", [BUILD, UNKNOWN])
def test_the_library_is_loaded_when_a_type_is_looked_up(code: str) -> None:
    run(code)


def test_a_program_from_a_file_is_checked_in_a_fresh_process(tmp_path: object) -> None:
    path = f"{tmp_path}/program.json"
    run(BUILD + "open(sys.argv[1], 'w').write(text)", path)
    run(CHECK, path)
