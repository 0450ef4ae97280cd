"""Static programs, trained on several devices at once, from a notebook."""

from functools import partial as _partial
from importlib import import_module as _import_module
from pathlib import Path as _Path

from workbench import framework as _framework
from workbench.dygraph.dispatch.mode import default_mode as _default_mode
from workbench.facade import FRAMEWORK as _FRAMEWORK
from workbench.facade import MODULES as _MODULES
from workbench.facade import TENSOR as _TENSOR
from workbench.facade import lazy as _lazy
from workbench.framework.folder import find_beside as _find_beside
from workbench.framework.keywords import suggest_in_scripts as _suggest_in_scripts
from workbench.framework.op.compiled import load_on_demand as _load_compiler
from workbench.framework.op.record import LIBRARIES as _LIBRARIES
from workbench.framework.op.record import load_on_demand as _load_ops
from workbench.framework.program.held import load_on_demand as _load_values
from workbench.framework.program.remote import load_on_demand as _load_remote
from workbench.framework.written import load_on_demand as _load_forms
from workbench.version import __version__ as __version__

_root = _Path(__file__).resolve().parent.parent
if (_root / "pyproject.toml").is_file() and (_root / "magics" / "__init__.py").is_file():
    _find_beside(__name__, _root, ("assets", "magics"))  # a source checkout
del _Path, _root

_suggest_in_scripts()
_default_mode()
for _library in _LIBRARIES:
    _load_ops(_partial(_import_module, f"workbench.{_library.replace('/', '.')}"))
del _library
_load_compiler(lambda: _import_module("workbench.executors.lowering.tape.one_op"))
_load_values(lambda: _import_module("workbench.checkpoint.program_state"))
_load_remote(lambda: _import_module("workbench.parallel.servers.programs").REMOTE)
for _module in ("framework.text.printer", "framework.text.serialize", "graph.printer", "executors.planning.plan_text"):
    _load_forms(_partial(_import_module, f"workbench.{_module}"))
del _module

__getattr__, __dir__ = _lazy("workbench", _TENSOR, _MODULES)
_framework.__getattr__ = _lazy("workbench.framework", _FRAMEWORK)[0]  # type: ignore[method-assign]


def load_ipython_extension(shell: object) -> None:
    """`%load_ext workbench`."""
    from workbench.magics import load

    load(shell)


def unload_ipython_extension(shell: object) -> None:
    """`%unload_ext workbench`."""
    from workbench.magics import unload

    unload(shell)
