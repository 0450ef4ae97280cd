"""Whoever looks through the whole package imports every module of it in one process, and each under one name."""

import json
import subprocess
import sys
from importlib.util import find_spec

SCRIPT = """
import collections, importlib, json, pkgutil, sys
import workbench, workbench.assets, workbench.magics

refused = {}
packages = [(workbench, "workbench."), (workbench.magics, "workbench.magics.")]
for package, prefix in packages:
    for module in pkgutil.walk_packages(package.__path__, prefix, onerror=lambda name: None):
        if module.name.endswith(".__main__"):  # runs
            continue
        try:
            importlib.import_module(module.name)
        except ImportError as error:
            if (error.name or "workbench").startswith("workbench"):  # else a library that is not here
                refused[module.name] = repr(error)
        except Exception as error:
            refused[module.name] = repr(error)
names = collections.defaultdict(list)
for name, module in sys.modules.items():
    if name.partition(".")[0] == "workbench" and getattr(module, "__file__", None):
        names[module.__file__].append(name)
twice = [several for several in names.values() if len(several) > 1]
print(json.dumps({"refused": refused, "twice": twice, "files": len(names)}))
"""


def test_every_module_is_imported_once_in_one_process() -> None:
    ran = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=300)
    assert ran.returncode == 0, ran.stderr
    told = json.loads(ran.stdout.splitlines()[-1])
    assert told["refused"] == {} and told["twice"] == []
    assert told["files"] > 900


def test_a_source_checkout_adds_the_folders_beside_the_package_and_nothing_else() -> None:
    assert find_spec("workbench.magics") and find_spec("workbench.assets") and find_spec("workbench.magics.runs")
    assert not any(find_spec(f"workbench.{name}") for name in ("workbench", "tests", "conftest", "magic"))
