"""A mistake on the command line gets one line, never a traceback."""

from collections.abc import Iterator
from contextlib import contextmanager

import typer


class CommandError(Exception):
    """Something the user can put right; its text is shown as it is, the exit status is 2."""


@contextmanager
def one_line_failures(command: str) -> Iterator[None]:
    """Turns a `CommandError` inside the block into one line on stderr and exit status 2."""
    try:
        yield
    except CommandError as error:
        typer.echo(f"workbench {command}: {error}", err=True)
        raise typer.Exit(2) from None
