"""What tells runs apart that are called the same."""

from __future__ import annotations

from collections.abc import Sequence

from workbench.experiments.launch.setup import Setup
from workbench.notebook.dashboard.model.controls import of_setup

_WORDS = {"batch_size": "batch size", "learning_rate": "learning rate", "num_threads": "threads"}


def differences(setups: Sequence[Setup | None]) -> list[str]:
    """For each setup the settings in which they are not all the same: `, learning rate 0.1`; None has none."""
    known = [None if setup is None else {name: of_setup(setup, name) for name in _WORDS} for setup in setups]
    differing = [name for name in _WORDS if len({values[name] for values in known if values is not None}) > 1]
    return ["" if values is None else "".join(_words(name, values[name]) for name in differing) for values in known]


def _words(name: str, value: object) -> str:
    written = "as given" if value is None else f"{value:.12g}" if isinstance(value, float) else value
    return f", {_WORDS[name]} {written}"
