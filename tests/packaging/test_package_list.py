"""pyproject.toml lists the packages by hand; this keeps the list equal to the folders."""

import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
BESIDE = {"workbench.assets": "assets", "workbench.magics": "magics", "workbench.notebooks": "notebooks"}


def settings() -> dict:
    with (ROOT / "pyproject.toml").open("rb") as file:
        return tomllib.load(file)["tool"]["setuptools"]


def packages_on_disk() -> set[str]:
    sources = [path for path in (ROOT / "workbench").rglob("*.py") if "__pycache__" not in path.parts]
    folders = {path.parent.relative_to(ROOT) for path in sources}
    inside_magics = {path.parent for path in (ROOT / "magics").rglob("*.py")} - {ROOT / "magics"}
    beside = {".".join(("workbench", *folder.relative_to(ROOT).parts)) for folder in inside_magics}
    return {".".join(folder.parts) for folder in folders} | beside | set(BESIDE)


def test_list_equals_the_folders_on_disk() -> None:
    listed = settings()["packages"]
    assert sorted(listed) == sorted(packages_on_disk())
    assert listed == sorted(listed)


def test_every_folder_with_code_is_a_package() -> None:
    folders = {path.parent for path in (ROOT / "workbench").rglob("*.py")}
    assert [str(folder) for folder in folders if not (folder / "__init__.py").is_file()] == []


def test_folders_beside_the_package_are_mapped() -> None:
    assert settings()["package-dir"] == {"workbench": "workbench", **BESIDE}
