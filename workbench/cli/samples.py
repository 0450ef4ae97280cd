"""Where the sample notebooks are, and how they get out of an installed wheel."""

from dataclasses import dataclass
from pathlib import Path

from workbench.cli.failure import CommandError

PACKAGE = Path(__file__).resolve().parent.parent
QUICKSTART = "01_quickstart.ipynb"
COPY_FOLDER = "workbench-notebooks"


@dataclass(frozen=True)
class Copied:
    """What `copy_samples` did: the names it wrote, and those it left because the user changed them."""

    folder: Path
    written: tuple[str, ...]
    kept: tuple[str, ...]


def shipped_folder() -> Path:
    """Where the samples are, which stay as they are: the notebooks/ of a source checkout, or of an installed wheel."""
    root = PACKAGE.parent
    if (root / "pyproject.toml").is_file() and (root / "notebooks").is_dir():
        return root / "notebooks"
    return PACKAGE / "notebooks"


def copy_samples(source: Path, folder: Path) -> Copied:
    """Copies the shipped notebooks into `folder`; an existing file is never touched.

    Raises:
        CommandError: the folder cannot be made or written to.
    """
    written, kept = [], []
    try:
        folder.mkdir(exist_ok=True)
        for sample in sorted(source.glob("*.ipynb")):
            content = sample.read_bytes()
            if write_new(folder / sample.name, content):
                written.append(sample.name)
            elif (folder / sample.name).read_bytes() != content:
                kept.append(sample.name)
    except OSError as error:
        raise CommandError(
            f"cannot copy the notebooks to {folder}: {error.strerror}; start in a folder you can write to"
        ) from error
    return Copied(folder, tuple(written), tuple(kept))


def write_new(path: Path, content: bytes) -> bool:
    """Creates `path` with `content`; False when there is a file of that name already."""
    try:
        with path.open("xb") as file:
            file.write(content)
    except FileExistsError:
        return False
    return True
