"""The version and the name to install by, in a file of its own: the build reads it without importing anything."""

__version__ = "0.1.0"

DISTRIBUTION = "notebook-workbench"
"""What the package is called where packages are installed from; `workbench` belongs to another project there."""


RESTART = "then restart the kernel, and JupyterLab if it is running: ipyparallel brings a part of it that needs that"
"""What to do after `installing("processes")`; JupyterLab's pages say `IPP Extension Server Error` before that."""


def installing(*extras: str) -> str:
    """The command that installs what extras of the package need.

    Args:
        extras: names of optional dependencies in `pyproject.toml`.

    Example:
        >>> installing("processes")
        "pip install 'notebook-workbench[processes]'"
    """
    return f"pip install '{DISTRIBUTION}[{','.join(extras)}]'"
