"""What a cell prints when it fails: the user's lines, and suggestions for misspelt keywords."""

import pytest

from tests.notebook.conftest import Notebook

INSIDE = "workbench/executors"

LOOP = """
wb.enable_static()
with static.program_guard(static.Program(), static.Program()):
    x = static.data("x", [None, 2])
    y = wb.mean(x)
    executor = static.Executor()
    compiled = static.CompiledProgram(y.block.program).with_data_parallel(places=static.cpu_places(2))
    class Stopping(dict):
        def items(self, *asked):
            raise KeyboardInterrupt
        __getitem__ = get = __iter__ = keys = items
    for step in range(3):
        executor.run(compiled, feed=Stopping(x=np.ones((2, 2), np.float32)), fetch_list=[y])
"""


def test_an_interrupt_in_a_loop_of_ones_own_shows_the_loop(notebook: Notebook) -> None:
    error = notebook.fail(LOOP)
    assert isinstance(error, KeyboardInterrupt)
    assert "executor.run(compiled" in notebook.printed
    assert INSIDE not in notebook.printed
    notebook.run("%xmode Verbose")
    notebook.fail(LOOP)
    assert INSIDE in notebook.printed
    notebook.run("%xmode Context")
    notebook.run("wb.disable_static()")


def test_an_interrupt_outside_of_workbench_is_shown_whole(notebook: Notebook) -> None:
    notebook.fail("def wait():\n    raise KeyboardInterrupt\nwait()")
    assert "wait()" in notebook.printed and "raise KeyboardInterrupt" in notebook.printed


@pytest.mark.parametrize(
    ("call", "hint"),
    [
        ("static.nn.conv2d(None, num_filter=3, filter_size=3)", "Did you mean 'num_filters'?"),
        ("wb.optimizer.SGD(learning_rat=0.1)", "Did you mean 'learning_rate'?"),
        ("wb.optimizer.Adam(lr=0.1)", "Did you mean 'learning_rate'?"),
        ("wb.optimizer.SGD(0.1, nesterov=True)", "It takes 'grad_clip'"),
        ("static.ParallelExecutor(use_cuda=False, los_name='x')", "Did you mean 'loss_name'?"),
    ],
)
def test_a_wrong_keyword_gets_a_suggestion(notebook: Notebook, call: str, hint: str) -> None:
    assert isinstance(notebook.fail(call), TypeError)
    assert hint in notebook.printed


def test_an_attribute_that_is_called_otherwise_elsewhere_is_said(notebook: Notebook) -> None:
    cell = "wb.disable_static()\noptimizer = wb.optimizer.SGD(0.1, parameters=wb.nn.Linear(2, 1).parameters())\n"
    assert isinstance(notebook.fail(f"{cell}optimizer.zero_grad()"), AttributeError)
    assert "no attribute 'zero_grad'. Here it is clear_grad()" in notebook.printed
    assert isinstance(notebook.fail("'text'.zero_grad()"), AttributeError) and "clear_grad" not in notebook.printed


@pytest.mark.parametrize(
    "cell",
    [
        "def conv2d(*, filters):\n    pass\nconv2d(num_filter=3)",
        "class Adam:\n    def __init__(self, rate):\n        pass\nAdam(lr=1)",
        "len(3)",
        "int(wrong=3)",
    ],
)
def test_other_type_errors_are_left_alone(notebook: Notebook, cell: str) -> None:
    error = notebook.fail(cell)
    assert "TypeError" in notebook.printed
    assert "Did you mean 'num" not in str(error) and "It takes" not in str(error)
