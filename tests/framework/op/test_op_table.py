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
from workbench.framework.program.reading.check import check_program
from workbench.framework.program.program import Program
check_program(Program.parse_from_string(open(sys.argv[1]).read()))
"""
IN_TURN = """
from workbench.framework.op.record import OPS, find_op
assert find_op("scale").type == "scale" and "workbench.optimizer.rules" not in sys.modules
assert find_op("sgd").update is not None and find_op("lamb_ratio").update is None
"""
UNKNOWN = """
from workbench.framework.op.record import find_op
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


@pytest.mark.parametrize("code", [BUILD, IN_TURN, UNKNOWN])
def test_the_library_is_loaded_when_a_type_is_looked_up(code: str) -> None:
    run(code)


def test_a_program_from_a_file_is_checked_in_a_fresh_process(tmp_path: object) -> None:
    path = f"{tmp_path}/program.json"
    run(BUILD + "open(sys.argv[1], 'w').write(text)", path)
    run(CHECK, path)


INTERRUPTED = """
from workbench.framework.op import declare, record as table
left, real = [AFTER], declare.register
def register(record):
    left[0] -= 1
    if left[0] == 0:
        raise KeyboardInterrupt
    return real(record)
declare.register = register
try:
    table.find_op("scale")
except KeyboardInterrupt:
    held = set(table.OPS)
found = table.find_op("exp"), table.find_op("softmax_grad")
assert found[0].type == "exp" and found[1].forward_of is table.OPS["softmax"] and held < set(table.OPS)
"""


@pytest.mark.parametrize("after", [2, 60, 150])
def test_an_import_that_was_interrupted_is_made_good_by_the_next_one(after: int) -> None:
    run(INTERRUPTED.replace("AFTER", str(after)))


AGAIN = """
import workbench.optimizer.rules
from workbench.framework.op.record import OPS
before = dict(OPS)
for name in [name for name in sys.modules if name.startswith(("workbench.ops", "workbench.optimizer"))]:
    del sys.modules[name]  # as an import that fails does
import workbench.optimizer.rules
kept = [name for name, record in before.items() if OPS[name] is record]
assert not kept, kept
"""


def test_every_op_can_be_declared_by_another_import_of_its_module() -> None:
    run(AGAIN)


TWICE = """
import importlib
import workbench.ops.math.unary
from workbench.framework.op.declare import op
from workbench.framework.op.record import OPS
exp = OPS["exp"]

def other(xp, x):
    return x

again = lambda: importlib.reload(workbench.ops.math.unary)
for declare in (lambda: op("exp", "X -> Out", infer=lambda x: x)(other), again):
    try:
        declare()
    except ValueError as error:
        assert "is declared twice" in str(error)
    else:
        raise SystemExit("taken")
assert OPS["exp"] is exp
"""


def test_two_modules_or_one_twice_cannot_declare_an_op() -> None:
    run(TWICE)
