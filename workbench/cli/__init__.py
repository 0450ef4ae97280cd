"""The `workbench` command: `lab`, `run`, `launch`, `doctor`, `bench`.

Each command lives in a file of its own and imports what it needs when it is called, so that
`workbench --version` costs nothing.
"""


def main() -> None:
    """Runs the command line and exits with its status."""
    from workbench.cli.app import app

    app(prog_name="workbench")
