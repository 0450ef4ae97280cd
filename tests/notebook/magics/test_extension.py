"""`%load_ext workbench`, unload, reload; help and completion of the magics."""

import pytest
from IPython.core.completer import provisionalcompleter
from IPython.core.interactiveshell import InteractiveShell

from tests.notebook.conftest import Notebook
from workbench.dygraph.dispatch.mode import disable_static, enable_static
from workbench.framework.program.guard import in_static_mode
from workbench.framework.site import Site
from workbench.magics import load

MAGICS = {"cell": ["static_program"], "line": ["program", "train", "profile_step", "step", "runs", "compare"]}
NET = "%%static_program net\nx = static.data('x', [None, 4])\ny = static.nn.fc(x, 3)"


def state(shell: InteractiveShell) -> dict[str, object]:
    """Everything an extension can leave behind in a shell."""
    return {
        "line": sorted(shell.magics_manager.magics["line"]),
        "cell": sorted(shell.magics_manager.magics["cell"]),
        "registry": sorted(shell.magics_manager.registry),
        "configurables": sorted(type(c).__name__ for c in shell.configurables),
        "completers": len(shell.Completer.custom_matchers),
        "handlers": shell.custom_exceptions,
    }


def test_load_adds_the_magics(shell: InteractiveShell) -> None:
    shell.run_cell("%load_ext workbench").raise_error()
    for kind, names in MAGICS.items():
        assert all(name in shell.magics_manager.magics[kind] for name in names)


def test_loading_twice_is_loading_once(shell: InteractiveShell) -> None:
    load(shell)
    once = state(shell)
    load(shell)
    assert state(shell) == once


def test_unload_takes_everything_away_but_the_users_variables(shell: InteractiveShell) -> None:
    shell.run_cell("%unload_ext workbench")  # brings in IPython's own magics for extensions
    before = state(shell)
    shell.run_cell("%load_ext workbench").raise_error()
    shell.run_cell("from workbench import static").raise_error()
    shell.run_cell(NET).raise_error()
    program = shell.user_ns["net"]
    site = program.all_parameters()[0].site
    assert str(site).startswith("cell In[")
    shell.run_cell("%unload_ext workbench").raise_error()
    assert state(shell) == before
    assert shell.user_ns["net"] is program
    assert str(site) == f"{site.file}, line {site.line}"


def test_reload_builds_on(notebook: Notebook) -> None:
    notebook.run(NET)
    before = state(notebook.shell)
    notebook.run("%reload_ext workbench")
    assert state(notebook.shell) == before
    notebook.run("%%static_program more --from net\nz = static.nn.fc(y, 2)")
    assert notebook["z"].block.program is notebook["more"]


@pytest.mark.parametrize("static", [True, False])
def test_neither_loading_nor_reloading_switches_the_mode(notebook: Notebook, static: bool) -> None:
    try:
        (enable_static if static else disable_static)()
        notebook.run("%reload_ext workbench")
        assert in_static_mode() is static
        notebook.run(NET)
        assert in_static_mode() is static
    finally:
        disable_static()


def test_sites_of_cells_that_are_no_magics_are_named_too(notebook: Notebook) -> None:
    notebook.run("\nimport sys\nfile = sys._getframe().f_code.co_filename")
    assert str(Site(notebook["file"], 3)) == f"cell In[{notebook.shell.execution_count - 1}], line 3"
    assert str(Site("model.py", 3)) == "model.py, line 3"


def test_the_users_own_exception_handler_stays(shell: InteractiveShell) -> None:
    shell.set_custom_exc((ZeroDivisionError,), lambda *args, **kwargs: None)
    shell.run_cell("%load_ext workbench").raise_error()
    assert shell.custom_exceptions == (ZeroDivisionError,)
    shell.run_cell("%unload_ext workbench").raise_error()
    assert shell.custom_exceptions == (ZeroDivisionError,)


@pytest.mark.parametrize("magic", ["%%static_program", "%program", "%train", "%profile_step", "%step"])
def test_a_question_mark_shows_the_arguments(notebook: Notebook, magic: str) -> None:
    notebook.run(f"{magic}?")
    assert "positional arguments:" in notebook.printed
    assert "options:" in notebook.printed


def completed(notebook: Notebook, line: str) -> list[str]:
    """What the Tab key offers at the end of a line."""
    with provisionalcompleter():
        return [c.text for c in notebook.shell.Completer.completions(line, len(line))]


def test_names_of_programs_are_completed(notebook: Notebook) -> None:
    notebook.run(NET)
    notebook.run("nettle = 3")
    assert completed(notebook, "%program ne") == ["net", "net_startup"]
    assert completed(notebook, "%train ne") == ["net", "net_startup"]
    assert completed(notebook, "%%static_program more --from ne") == ["net", "net_startup"]


def test_options_are_completed(notebook: Notebook) -> None:
    assert completed(notebook, "%%static_program net --s") == ["--seed", "--startup"]
    assert completed(notebook, "%train net --e") == ["--epochs"]


def test_loaders_and_variables_are_completed_after_train(notebook: Notebook) -> None:
    notebook.run(NET)
    notebook.run("batches, batch_size = [], 3")
    assert completed(notebook, "%train net bat") == ["batches"]
    assert completed(notebook, "run = %train net bat") == ["batches"]
    assert completed(notebook, "%train net batches --fetch ") == ["x", "y"]


@pytest.mark.parametrize("line", ["prin", "program = prin", "%%static_program net\nprin"])
def test_completion_elsewhere_is_pythons(notebook: Notebook, line: str) -> None:
    notebook.run(NET)
    assert "print" in completed(notebook, line)
