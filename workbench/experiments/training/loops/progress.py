"""The progress bar of a run: tqdm, in a terminal or a notebook, which may draw it in its own way."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from workbench.experiments.run import Run

_kinds: list[Callable[..., Any]] = []  # what draws bars, the newest last; tqdm itself if there is none

_MOST = 2**53  # steps; beyond them tqdm cannot compute, and an error in it leaves its lock held for all bars


def bar_of(run: Run, wanted: bool | None) -> Bar | None:
    """A bar for `run` always, never, or (None) where somebody can see it; it is to be subscribed."""
    if wanted is False or (wanted is None and not _watched()):
        return None
    return Bar(run)


def new_bar(**options: Any) -> Any:
    """A tqdm bar with these options; a text where nothing else was asked for, never a widget, which no file keeps."""
    from tqdm import tqdm

    # a notebook shows standard error in red
    file = sys.stdout if _in_notebook() else None
    return _kinds[-1](**options) if _kinds else tqdm(file=file, **options)


def draw_bars_with(kind: Callable[..., Any]) -> Callable[[], None]:
    """Have bars made by a kind of tqdm from now on.

    Returns:
        what takes that back.
    """
    _kinds.append(kind)
    return lambda: _kinds.remove(kind) if kind in _kinds else None


def _watched() -> bool:
    return sys.stderr.isatty() or _in_notebook()


def _in_notebook() -> bool:
    return "ipykernel" in sys.modules


class Bar:
    """Feeds a tqdm bar from a run's observer calls."""

    def __init__(self, run: Run) -> None:
        total = run.steps if run.steps is not None and run.steps <= _MOST else None
        self.bar: Any = new_bar(total=total, desc=run.name, unit="step", mininterval=0.2)

    def close(self) -> None:
        """Nothing more comes."""
        self.bar.close()

    def __call__(self, run: Run) -> None:
        if run.finished or run.error is not None:
            self._describe(run)
            self.bar.close()
        elif self.bar.update(run.step - self.bar.n):
            self._describe(run)  # update() is true when it redrew, at most five times a second

    def _describe(self, run: Run) -> None:
        self.bar.n = run.step
        self.bar.set_postfix({name: f"{value:.4g}" for name, value in run.last.items()}, refresh=True)
