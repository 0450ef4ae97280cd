"""All that a dashboard knows, without a widget: what it is about, its runs, its controls; messages for a page."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from workbench.errors import EnforceNotMet, InvalidArgument, PreconditionNotMet, one_of
from workbench.experiments.first_nan import FirstNaN
from workbench.experiments.launch.setup import loss_of
from workbench.experiments.records.recorder import record_of
from workbench.experiments.run import Run
from workbench.experiments.run_state import State
from workbench.experiments.runners import executor_of
from workbench.framework.program.variable import Variable
from workbench.notebook.dashboard.model.controls import Controls, Names, StartupOf
from workbench.notebook.dashboard.model.differences import differences
from workbench.notebook.dashboard.model.newcomers import Newcomers
from workbench.notebook.dashboard.model.run_messages import listed, loop_message, run_message
from workbench.notebook.dashboard.model.shown import Shown
from workbench.notebook.dashboard.model.subject import Subject
from workbench.notebook.dashboard.watching.exchanged import ServersHeard
from workbench.notebook.dashboard.watching.fetched import FetchedHistory
from workbench.notebook.dashboard.watching.memory_trace import Past
from workbench.notebook.dashboard.watching.previewed import graph_of_program
from workbench.notebook.dashboard.watching.ranks.cluster_watch import ClusterWatch
from workbench.notebook.dashboard.watching.throttle import Throttle
from workbench.notebook.dashboard.watching.unwatched import Unwatched
from workbench.notebook.dashboard.watching.watch import Watch
from workbench.notebook.messages import Message
from workbench.notebook.programs.summary import memory_text
from workbench.parallel.cluster.trained import ClusterExecutor

FLAGS = ("pause", "resume", "step", "stop")  # of a run that goes on: they only set flags
COMMANDS = ("run", "pause", "resume", "step", "stop", "drop", "save")
_RUNS = 12  # whose curves are shown
_SCOPES_S = 0.5  # seconds between two of what scopes hold
Slow = Callable[[], Callable[[], None]]  # what takes a while, and what it then changes in the model
LIVE = (State.READY, State.RUNNING, State.PAUSED)


def _past_of(run: Run) -> Callable[[], Past] | None:
    """What is known of a recorded run from before it was watched."""
    record, executor = record_of(run), executor_of(run.executor)
    if record is None or executor is None:
        return None
    return lambda: Past(max(executor.inspection.steps - run.step, 0), tuple(record.drops), record.dropped)


def _rests(run: Run) -> bool:
    return run.state != State.RUNNING


class Model:
    """Everything the page shows. One thread at a time may use it: that of the publisher.

    Args:
        subject: what it is about.
        names: what the user's names stand for now; startup_of: see `Controls`.
    """

    def __init__(self, subject: Subject, names: Names, startup_of: StartupOf) -> None:
        self.subject = subject
        self.controls = Controls(subject, names, startup_of)
        self.busy: str | None = None
        self.notice: Message | None = None
        self.cell: str | None = None  # that shows the page
        self.shown: list[Shown] = []
        self.watch: Watch | Unwatched
        self._names = names
        self._notices, self._numbers = itertools.count(1), itertools.count(1)
        self._sent: Message = {}
        self._scopes = Throttle(_SCOPES_S)
        self._graph_sent = -1
        self._newcomers = Newcomers(subject)
        self._newcomer: tuple[Run, Watch | Unwatched] | None = None
        self._begin()
        self._servers_heard = ServersHeard(self.watch.graph)

    def _begin(self) -> None:
        subject = self.subject
        run = subject.run or self._newcomers.newest(())
        if run is not None:
            self._follow(run, self._watch_of(run))
        elif subject.executor is not None:
            engine = subject.executor.inspection
            self.watch = Watch(subject.executor, subject.name, self._loss(), 1, partial(Past.of, engine))
            fetched = FetchedHistory(engine, self._labels())
            self.shown.append(Shown(next(self._numbers), subject.name, None, fetched))
        else:
            self.watch = self._unwatched()

    def _loss(self) -> list[str]:
        loss = loss_of(self.subject.program) if self.subject.program is not None else None
        return [loss] if loss else []

    def _labels(self) -> dict[str, str]:
        """The user's names of variables."""
        return {value.name: name for name, value in self._names().items() if isinstance(value, Variable)}

    def _unwatched(self) -> Unwatched:
        assert self.subject.program is not None
        devices = self.controls.values()["devices"] if loss_of(self.subject.program) else 1
        return Unwatched(self.subject.name, graph_of_program(self.subject.program, devices, self._loss()))

    def _watch_of(self, run: Run) -> Watch | Unwatched:
        """What watches a run; for a large program its graph takes a while."""
        executor, before = executor_of(run.executor), getattr(self, "watch", None)
        first = before.graph_number + 1 if before is not None else 1
        if executor is not None:
            early = None if run.early is None else run.early.sampled
            return Watch(executor, run.name, list(run.fetch.values()), first, _past_of(run), early)
        program = run.program
        if isinstance(run.executor, ClusterExecutor):
            rests = partial(_rests, run)
            return ClusterWatch(run.executor, run.name, list(run.fetch.values()), first, rests)
        return Unwatched(run.name, graph_of_program(program, 1, list(run.fetch.values())), first)

    def _follow(self, run: Run, watch: Watch | Unwatched) -> None:
        """Follow another run from now on; the curves of those before stay."""
        number, before = next(self._numbers), getattr(self, "watch", None)
        self.watch = watch
        self.controls.follow(run)
        if before is not None:
            before.close()
        self.shown.append(Shown(number, f"{run.name}, {self.watch.what()}", run))
        for gone in self.shown[:-_RUNS]:
            if gone.fetched is not None:
                gone.fetched.close()
        del self.shown[:-_RUNS]
        setups = [None if shown.run is None else shown.run.setup for shown in self.shown]
        for shown, words in zip(self.shown, differences(setups), strict=True):
            shown.tell_apart(words)

    def _await_newcomer(self) -> None:
        """Find a run that was begun elsewhere, once the one that is followed has ended."""
        if self._newcomer is not None or self._is_occupied():
            return
        run = self._newcomers.newest([shown.run for shown in self.shown])
        if run is not None:
            self._newcomer = run, self._watch_of(run)

    def _greet_newcomer(self) -> None:
        """Follow it, unless one has been begun from here meanwhile."""
        if self._newcomer is None:
            return
        (run, watch), self._newcomer = self._newcomer, None
        if self._is_occupied():
            watch.close()
        else:
            self._follow(run, watch)

    def _is_occupied(self) -> bool:
        return self.busy is not None or self.is_live()

    def close(self) -> None:
        """Listen no more."""
        self.watch.close()
        if self._newcomer is not None:
            self._newcomer[1].close()
        self._servers_heard.close()
        for shown in self.shown:
            if shown.fetched is not None:
                shown.fetched.close()

    @property
    def run(self) -> Run | None:
        """The run that is followed."""
        return self.shown[-1].run if self.shown else None

    def is_live(self) -> bool:
        """Whether there is a run that has not ended."""
        return self.run is not None and self.run.state in LIVE

    def goes_on_as(self, run: Any) -> bool:
        """Whether the run of this id, as the page knows it, is the one that is followed and has not ended."""
        return self.is_live() and self.shown[-1].id == run

    def is_stepping(self) -> bool:
        """Whether steps follow each other, so that one of them will be looked at before long."""
        if self.run is not None:
            return self.run.state == State.RUNNING
        return bool(self.shown) and self.shown[-1].fetched is not None and self.shown[-1].fetched.is_going_on

    @property
    def nan(self) -> FirstNaN | None:
        """The first step of what is followed with a NaN in it."""
        if self.run is not None:
            return self.run.first_nan
        return self.watch.nan.first if self.watch.nan is not None else None

    def prepare(self) -> None:
        """What takes long, once: whoever has a command must not wait for it."""
        self._await_newcomer()
        self.watch.prepare()
        if self.nan is not None:
            self.nan.find()

    def goes_on(self) -> bool:
        """Whether there are steps, or will be: of a run, or of a loop of the user's own."""
        loop = self.shown[-1].fetched if self.shown else None
        return self.is_live() or (loop is not None and loop.is_going_on)

    def tell(self, kind: str, text: str) -> None:
        """Show a line on the page; kind is "info" or "error"."""
        self.notice = {"id": next(self._notices), "kind": kind, "text": text}

    # Messages

    def news(self) -> list[Message]:
        """What has changed since the last time."""
        self._greet_newcomer()
        graph_changed, looked = self._catch_up()
        curves = [message for shown in self.shown if (message := shown.news()) is not None]
        news: list[Message] = []
        state = self.state()
        if state != self._sent:
            self._sent = state
            news.append(state)
        if graph_changed or self._graph_sent != self.watch.graph_number or self._servers_heard.has_news():
            self._graph_sent = self.watch.graph_number
            news.append(self._servers_heard.added_to(self.watch.graph_message()))
        if looked:
            news += self.watch.sampled()
        if not self.is_stepping() and (fed := self.watch.news_of_fed()) is not None:
            news.append(fed)
        if self._scopes.is_due():
            with self._scopes.taking():
                news += [self.watch.scopes_message()] if self.watch.memory_changed() else []
        return [*news, *curves]

    def everything(self) -> list[Message]:
        """All that a page needs that has nothing."""
        self._greet_newcomer()
        for shown in self.shown:
            shown.follow()
        self._catch_up()
        self.watch.memory_changed()
        self._sent, self._graph_sent = self.state(), self.watch.graph_number
        curves = [shown.curves.message() for shown in self.shown]
        graph, fed = self._servers_heard.added_to(self.watch.graph_message()), self.watch.newest_fed()
        steps = [*self.watch.sampled(), *([fed] if fed is not None else [])]
        return [self._sent, graph, *curves, self.watch.scopes_message(), *steps]

    def _catch_up(self) -> tuple[bool, bool]:
        return self.watch.follow(self.run is None or not self.run.finished)

    def state(self) -> Message:
        """The message `state`; see assets/src/README.md."""
        return {
            "type": "state",
            "subject": {
                "name": self.subject.name, "kind": self.subject.kind, "devices": self.watch.devices,
                "strategy": self.watch.strategy, "unseen": self.watch.unseen,
                "graph": self.watch.graph_number, "cell": self.cell,
            },
            "run": self._run_state(),
            "runs": [listed(shown) for shown in self.shown],
            "controls": {**self.controls.message(), "allowed": self.allowed(), "busy": self.busy},
            "notice": self.notice,
        }  # fmt: skip

    def _run_state(self) -> Message | None:
        if not self.shown:
            return None
        shown = self.shown[-1]
        if shown.run is None:
            return loop_message(shown, self.subject.name, self.watch, self.nan)
        return run_message(shown, shown.run, self.controls.of_run(shown.run), self.watch, self.nan)

    # Commands

    def allowed(self) -> list[str]:
        """The commands that make sense now."""
        run = self.run
        if self.busy:
            return self._flags()
        drop = ["drop"] if self.watch.can_drop() else []
        if run is None or run.state not in LIVE:
            return ["run", "step", *drop] if self.controls.values()["program"] is not None else drop
        going, *others = self._flags()
        return [going, "step", *others, *drop, *(["save"] if run.write_checkpoint is not None else [])]

    def _flags(self) -> list[str]:
        """What holds a run, has it go on or ends it: possible as long as it goes on, whatever else is being done."""
        if not self.is_live():
            return []
        assert self.run is not None
        return ["resume" if self.run.state == State.PAUSED else "pause", "stop"]

    def command(self, name: str, values: Mapping[str, Any]) -> Slow | None:
        """Do at once what only takes a flag; what takes longer is returned, to be called elsewhere.

        Args:
            values: settings that are chosen first.

        Raises:
            InvalidArgument: an unknown command or setting. PreconditionNotMet: it makes no sense now.
        """
        if name not in COMMANDS:
            raise InvalidArgument(f"the dashboard has no command {name!r}; it has {one_of(COMMANDS)}")
        if name not in self.allowed():
            raise PreconditionNotMet(f"{name} is not possible now: {self.busy or self._standing()}")
        self.controls.set(values)
        run = self.run
        if run is None or run.finished:
            return self._drop if name == "drop" else self._starter(only_one=name == "step")
        if name in ("drop", "save"):
            return self._drop if name == "drop" else self._save
        if name == "step":
            self.watch.sample_next()
            run.advance()
        else:
            getattr(run, name)()
        return None

    def _standing(self) -> str:
        run = self.run
        if self.subject.is_recorded and (run is None or run.finished):
            return "these steps are recorded from Python: run the cell that makes them, or %train, for others"
        if self.controls.values()["program"] is None and (run is None or run.finished):
            return "there is no program with a loss to train; choose one, or build one with %%static_program"
        return "nothing has been started" if run is None else f"run {run.name!r} is {run.state}"

    def _starter(self, only_one: bool) -> Slow:
        setup = self.controls.setup()
        checkpoints = self.controls.checkpoints(setup)
        self.busy = "starting the run …"

        def start() -> Callable[[], None]:
            run = setup.start(progress=False, paused=True, checkpoints=checkpoints)
            watch = self._watch_of(run)

            def follow() -> None:
                self._follow(run, watch)
                kept = f"; checkpoints go to {checkpoints.dirpath}" if checkpoints is not None else ""
                whose = "its values are its own, wb.dashboard().run.scope, and those of the notebook stay as they are"
                self.tell("info", f"started {self.shown[-1].about}; {whose}{kept}")
                if only_one:
                    run.advance()
                else:
                    run.resume()

            return follow

        return start

    def _drop(self) -> Callable[[], None]:
        dropped = self.watch.drop()
        return lambda: self.tell("info", f"dropped {memory_text(dropped)} of temporaries")

    def _save(self) -> Callable[[], None]:
        run = self.run
        assert run is not None
        path = run.save()
        return lambda: self.tell("info", f"saved {path}; wb.resume goes on from it")

    def refuse(self, error: Exception) -> None:
        """Show what a command was refused for."""
        text = str(error) or type(error).__name__
        self.tell("error", text if isinstance(error, EnforceNotMet) else f"{type(error).__name__}: {text}")
