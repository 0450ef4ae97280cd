"""The commands' arguments and help texts; what they do is in lab.py, execute.py, doctor.py and bench.py."""

from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from workbench.cli.failure import one_line_failures
from workbench.version import __version__

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="Static programs, trained on several devices at once, from a notebook.",
)


def show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"workbench {__version__}")
        raise typer.Exit()


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=show_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Options that belong to no command."""


@app.command()
def lab(
    notebook: Annotated[
        Path | None, typer.Argument(help="Notebook or folder to open; the quickstart when left out.")
    ] = None,
    browser: Annotated[bool, typer.Option(help="Open a browser; the address is printed either way.")] = True,
    port: Annotated[
        int | None,
        typer.Option(min=1, max=65535, help="Port on 127.0.0.1; the first free one from 8888 when left out."),
    ] = None,
) -> None:
    """Open JupyterLab on a notebook.

    Without a name the sample notebooks are copied to ./workbench-notebooks first; a file that is already there is
    never overwritten.
    """
    from workbench.cli.lab import open_lab

    with one_line_failures("lab"):
        raise typer.Exit(open_lab(notebook, browser=browser, port=port))


@app.command()
def run(
    notebook: Annotated[Path, typer.Argument(help="Notebook to execute from top to bottom.")],
    out: Annotated[Path, typer.Option(help="Folder for the executed copy and its HTML.")] = Path("workbench-run"),
    timeout: Annotated[
        float | None, typer.Option(min=0.1, help="Seconds one cell may take; no limit when left out.")
    ] = None,
) -> None:
    """Execute a notebook without a browser and keep its executed copy and its HTML.

    Exits with 0 when every cell ran, 1 when one failed (the partial copy is kept), 2 when there was nothing
    to run, 130 after Ctrl-C.
    """
    from workbench.cli.execute import run_notebook

    with one_line_failures("run"):
        raise typer.Exit(run_notebook(notebook, out, timeout))


class WholeLine(TyperCommand):
    """A command that reads its own arguments, among them those of a script."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        ctx.args = args
        return []


@app.command(cls=WholeLine, add_help_option=False, options_metavar="-n N script [ARGUMENTS]")
def launch(context: typer.Context) -> None:
    """Start a script in several processes; `workbench launch --help` tells how."""
    from workbench.parallel.launch.main import main

    raise typer.Exit(main(context.args))


@app.command()
def doctor(
    compile: Annotated[
        bool, typer.Option("--compile", help="Compile the kernels first; exits with 1 where that is not possible.")
    ] = False,
) -> None:
    """Print the devices, the BLAS and the compiled kernels in use, and what is installed or how to get it."""
    from workbench.cli.doctor import compiled, report

    failed = compile and not compiled()
    for line in report(compile):
        typer.echo(line)
    raise typer.Exit(int(failed))


@app.command()
def bench(
    workloads: Annotated[
        list[str] | None,
        typer.Argument(help="tiny, mlp, deep, lenet, encoder, or rows of --table or --coverage; all when left out."),
    ] = None,
    devices: Annotated[int, typer.Option(min=1, help="CPU devices a step runs on.")] = 2,
    seconds: Annotated[float, typer.Option(min=0.0, help="Seconds a workload is measured.")] = 2.0,
    profile: Annotated[
        str | None, typer.Option(metavar="WORKLOAD", help="Print where its time goes instead, by kind of op.")
    ] = None,
    growth: Annotated[
        bool, typer.Option("--growth", help="Print instead how time grows with devices and ops, and memory.")
    ] = False,
    table: Annotated[
        bool, typer.Option("--table", help="Print instead programs as people bring them, beside other libraries.")
    ] = False,
    coverage: Annotated[
        bool, typer.Option("--coverage", help="Print instead which nodes of programs run by NumPy, and why; 1 device.")
    ] = False,
    torch: Annotated[
        str | None, typer.Option(metavar="PYTHON", help="With --table: a Python that has PyTorch, if not this one.")
    ] = None,
    rounds: Annotated[int, typer.Option(min=1, help="With --table: how often all take their turn.")] = 3,
) -> None:
    """Measure training steps, beside the time their arithmetic and their bytes take at this machine's own rates.

    Run it on a quiet machine; figures of different machines or days do not compare.
    """
    from workbench.cli import bench as command

    with one_line_failures("bench"):
        if coverage:
            from workbench.cli import coverage as covered

            lines = covered.report(workloads or [], seconds)
        elif table:
            lines = command.table(workloads or [], {"torch": torch}, rounds, seconds)
        else:
            lines = command.report(workloads or [], devices, seconds, profile, growth)
        for line in lines:
            typer.echo(line)
