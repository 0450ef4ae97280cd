"""Static programs, trained on several devices at once, from a notebook."""

from pathlib import Path as _Path

_root = _Path(__file__).resolve().parent.parent
if (_root / "pyproject.toml").is_file() and (_root / "magics" / "__init__.py").is_file():
    __path__.append(str(_root))  # source checkout: magics/ and assets/ sit beside this package
del _Path, _root

from workbench.version import __version__ as __version__
