"""`PYTHON -m tests.oracle.signatures PACKAGE`: the parameters of a package's public functions, as JSON.

It runs under the Python that has the package. `{"version", "functions": {"paddle.add": [["x", true], …]}}`; true where
an argument is required.
"""

from __future__ import annotations

import importlib
import inspect
import json
import sys
from typing import Any

from tests.oracle.listing import public_modules

Parameters = list[tuple[str, bool]]
COMPUTING = ("", "linalg", "fft", "nn.functional")  # modules whose functions are ops


def parameters(function: Any) -> Parameters:
    """(name, whether it is required) of what a function takes; ValueError where that cannot be told."""
    parameters = inspect.signature(function).parameters.values()
    kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return [(p.name, p.default is inspect.Parameter.empty) for p in parameters if p.kind in kinds]


def functions(package: Any) -> dict[str, Parameters]:
    """The parameters of every public function of the modules that compute, by its name."""
    signatures = {}
    wanted = {f"{package.__name__}.{path}".rstrip(".") for path in COMPUTING}
    for path, module in public_modules(package):
        for name in module.__all__ if path in wanted else ():
            value = getattr(module, name, None)
            if inspect.isfunction(value):
                signatures[f"{path}.{name}"] = parameters(value)
    return signatures


def main(arguments: list[str]) -> int:
    package = importlib.import_module(arguments[0])
    json.dump({"version": getattr(package, "__version__", "?"), "functions": functions(package)}, sys.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
