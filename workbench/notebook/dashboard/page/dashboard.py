"""`wb.dashboard(...)`: what is going on, and the same from Python."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

from IPython.core.getipython import get_ipython

from workbench.errors import PreconditionNotMet
from workbench.experiments.run import Run
from workbench.experiments.run_state import State
from workbench.framework.program.program import Program
from workbench.framework.text.printable import escape
from workbench.notebook.dashboard.model.model import Model
from workbench.notebook.dashboard.model.subject import Subject, Target
from workbench.notebook.dashboard.page.publisher import Publisher
from workbench.notebook.dashboard.page.still_pictures import StillPictures
from workbench.notebook.dashboard.page.view import PanelView
from workbench.notebook.dashboard.page.widget import Page
from workbench.notebook.messages import Message
from workbench.notebook.programs.session import current_session, running_cell
from workbench.notebook.steps.live import in_notebook


class Dashboard:
    """A page about an executor, a program or a run, and what its buttons do. Made by `dashboard`.

    Every button has a method, every panel is there by itself, too; as the value of a cell it is shown.
    """

    def __init__(self, target: Target, names: Callable[[], Mapping[str, Any]], startup_of: Any) -> None:
        self.target = target  # kept, so that its id stays its own
        self._model = Model(Subject.of(target, names()), names, startup_of)
        self._pictures, self._cell = StillPictures(), "this cell"  # that showed it last
        self._page: Page = Page(lambda message, buffers: self._publisher.take(message, buffers))
        self._publisher = Publisher(self._model, self._page.post, self._draw_still)

    @property
    def run(self) -> Run | None:
        """The run it follows; None of an executor that a loop of your own steps."""
        return self._model.run

    @property
    def runs(self) -> list[Run]:
        """The runs whose curves it shows, the newest last."""
        return [shown.run for shown in self._model.shown if shown.run is not None]

    # What the buttons do

    def set(self, **settings: Any) -> None:
        """Choose settings of the next run: program, data (names), devices, reduce_strategy, steps …

        Raises:
            InvalidArgument: an unknown setting.
        """
        self._model.controls.set(settings)

    def start(self, **settings: Any) -> Run:
        """Begin a run, with these settings if any are given; returns it when it has begun.

        Raises:
            EnforceNotMet: a run is going on; or a setting does not fit.
        """
        self._publisher.do("run", settings)
        run = self.run
        assert run is not None
        return run

    def pause(self) -> None:
        """Hold the run at the next step boundary."""
        self._publisher.do("pause", {})

    def resume(self) -> None:
        """Go on."""
        self._publisher.do("resume", {})

    def step(self) -> None:
        """Run one more step and hold; where nothing runs, begin a run with it."""
        self._publisher.do("step", {})

    def stop(self) -> None:
        """End the run at the next step boundary."""
        self._publisher.do("stop", {})

    def drop_scopes(self) -> None:
        """Give the memory of temporaries back."""
        self._publisher.do("drop", {})

    def save_checkpoint(self) -> None:
        """Write a checkpoint of the run into the current folder; its name is told on the page."""
        self._publisher.do("save", {})

    def close(self) -> None:
        """Remove the page and listen no more; what runs goes on."""
        if _made.get(id(self.target)) is self:
            del _made[id(self.target)]
        _latest[:] = [other for other in _latest if other is not self]
        self._publisher.close()
        self._page.close()

    # What it shows

    def messages(self) -> dict[str, Message]:
        """All that the page shows, by kind of message; `curves` is a list. Arrays are NumPy's."""
        newest: dict[str, Any] = {"curves": []}
        for message in self._publisher.snapshot():
            if message["type"] == "curves":
                newest["curves"].append(message)
            else:
                newest[message["type"]] = message
        return newest

    def panel(self, name: str) -> PanelView:
        """A panel as it stands, to be shown or saved: graph, feeds, scopes, timeline or curves.

        Raises:
            InvalidArgument: there is no such panel.
        """
        return PanelView(name, self.messages())

    def save(self, panel: str, path: str | os.PathLike[str]) -> None:
        """Write a panel as .svg or .png.

        Raises:
            InvalidArgument: there is no such panel, or another kind of file. PreconditionNotMet: it is still empty.
            OSError: it cannot be written.
        """
        self.panel(panel).save(path)

    def export_chrome_trace(self, path: str | os.PathLike[str]) -> None:
        """Write the newest step that was looked at, for https://ui.perfetto.dev.

        Raises:
            PreconditionNotMet: none has been. OSError: it cannot be written.
        """
        from workbench.executors.profiling.chrome import write_trace

        write_trace(path, self._model.watch.events_of())

    def __repr__(self) -> str:
        from workbench.notebook.figures.text import describe

        return describe(self.messages())

    def _ipython_display_(self) -> None:
        self._model.cell = running_cell()
        if not in_notebook(get_ipython()):
            print(self)
            return
        self._cell = _this_cell()
        said, words, seen = self._still()
        self._page.still.show(self._page.view(), words.partition("\n")[0], said, words, seen)

    def _draw_still(self) -> None:
        """What is left of the page, in a notebook that is saved now, tells what goes on, or what came of the steps."""
        if self._page.still.is_shown:
            self._page.still.update(*self._still())

    def _still(self) -> tuple[list[str], str, str]:
        """Why the page is not here; what it shows, in words and as HTML: both of the same moment."""
        from workbench.notebook.figures.text import describe

        messages, goes_on = self.messages(), self._model.is_stepping()
        words = describe(messages)
        return self._way_back(), words, f"{self._pictures.html(messages, goes_on)}<pre>{escape(words)}</pre>"

    def _way_back(self) -> list[str]:
        """What a still picture says of itself: a run may go on while nobody sees it."""
        return [
            "A still picture of when the notebook was saved: the live page is not here.",
            *([] if self.run is None else [_what_goes_on(self.run)]),
            f"To have the page back, run {self._cell} again; if the kernel has ended, the cells above it first.",
        ]


def _what_goes_on(run: Run) -> str:
    if run.finished:
        return f"The run {run.name!r} has ended; the pictures and the words below tell what came of it."
    done = f"step {run.step:,}" + (f" of {run.steps:,}" if run.steps is not None else "")
    if run.state == State.PAUSED:
        return f"The run {run.name!r} was paused then, after {done}; it can go on as long as the kernel lives."
    return f"The run {run.name!r}, after {done} or later then, goes on as long as the kernel does."


def _this_cell() -> str:
    """What the running cell is called on a page: `this cell, In[6],`."""
    session = current_session()
    count = getattr(session.shell.displayhook, "prompt_count", None) if session is not None else None
    return "this cell" if count is None else f"this cell, In[{count}],"


_made: dict[int, Dashboard] = {}
_latest: list[Dashboard] = []


def dashboard(target: Target | None = None) -> Dashboard:
    """The dashboard of an executor, a program or a run; the one there is already, if there is.

    Args:
        target: a ParallelExecutor, a CompiledProgram, a Program or a Run; a function of `jit.capture` or
            `jit.to_static`, or a layer that was called in one; None for the one that runs, else the last.

    Raises:
        InvalidType: something else. PreconditionNotMet: None, and there is no dashboard yet.

    Example:
        >>> wb.enable_static()
        >>> x = static.data("x", [None, 4])
        >>> loss = wb.mean(static.nn.fc(x, 2))
        >>> dash = wb.dashboard(static.default_main_program())
        >>> dash.panel("graph").save("graph.svg")
        >>> dash.close()
    """
    if target is None:
        if not _latest:
            raise PreconditionNotMet("there is no dashboard yet; make one of an executor, a program or a run")
        return next((d for d in reversed(_latest) if d.run is not None and not d.run.finished), _latest[-1])
    shown = _made.get(id(target))
    if shown is None:
        shown = _made[id(target)] = Dashboard(target, _names, _startup_of)
    _latest[:] = [*(other for other in _latest if other is not shown), shown]
    return shown


def live_runs() -> list[Run]:
    """The runs of all dashboards that have not ended."""
    return [run for board in _made.values() for run in board.runs if not run.finished]


def _names() -> Mapping[str, Any]:
    session = current_session()
    return {} if session is None else session.own()


def _startup_of(program: Program, name: str) -> Program | None:
    session = current_session()
    return program.startup if session is None else session.startup_known(program, name)
