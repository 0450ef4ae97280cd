"""Source files of notebook cells get the name a reader knows them by: `cell In[3]`."""

from __future__ import annotations

from typing import Any


class CellNames:
    """A formatter for `framework.site.add_formatter`, over the files one IPython shell has compiled."""

    def __init__(self, shell: Any) -> None:
        self.shell = shell

    def __call__(self, file: str) -> str | None:
        """`cell In[3]`, or None for a file that is no cell."""
        known = self.shell.compile.format_code_name(file)
        return " ".join(known).replace("Cell", "cell", 1) if known else None
