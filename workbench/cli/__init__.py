"""The `workbench` command."""


def main() -> None:
    """Runs the command line."""
    raise SystemExit("workbench: no command yet")
