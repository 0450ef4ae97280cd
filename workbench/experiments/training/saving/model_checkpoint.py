"""`ModelCheckpoint`: the best and the last checkpoints of a run stay in a folder, the others go."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from workbench.checkpoint.parts import is_checkpoint, remove_checkpoint
from workbench.errors import InvalidArgument, InvalidType, did_you_mean
from workbench.experiments.run import Run
from workbench.experiments.run_state import State
from workbench.experiments.training.loops.kept import LAST, SUFFIX, Kept, KeptFiles, stem_of
from workbench.experiments.training.loops.loop import TrainingLoop
from workbench.experiments.training.saving.checkpoints import origin_of
from workbench.experiments.training.saving.together import TrainerWriters
from workbench.framework.notice import tell_anyway
from workbench.framework.paths import path_text
from workbench.runtime.standing import LAUNCHED, STARTS


@dataclass(frozen=True)
class ModelCheckpoint:
    """Which checkpoints of a run are kept; the names are those of PyTorch Lightning.

    A folder has `epoch-3-step-300.checkpoint` for the best ones and `last.checkpoint`; files of other runs are left
    alone, then the names go on with `-v1`, `-v2` …

    Attributes:
        dirpath: the folder; is made.
        monitor: what is best is said by this label of `run.history`: by the newest value of validation data, or by the
            mean of a training value since the look before. By default the first of the validation data, if there are
            any, else the first fetch. NaN is never the best.
        mode: whether the least ("min") or the largest ("max") value is best.
        save_top_k: how many of the best stay; 0 for none, -1 for all.
        save_last: whether the newest one stays too; it is replaced at every look, and written at the end of the run.
        every_n_epochs, every_n_train_steps: when to look; by default after every evaluation of validation data, or
            without them after every epoch.

    Raises:
        InvalidArgument, InvalidType: a value is not one of these.

    Example:
        >>> wb.enable_static()
        >>> x = static.data("x", [None, 4])
        >>> loss = wb.mean(static.nn.fc(x, 2))
        >>> ops, pairs = wb.optimizer.SGD(0.1).minimize(loss)
        >>> data = wb.io.TensorDataset([np.ones((8, 4), np.float32)])
        >>> loader = wb.io.DataLoader(data, batch_size=4)
        >>> net, net_startup = static.default_main_program(), static.default_startup_program()
        >>> best = wb.ModelCheckpoint("checkpoints", monitor="val_loss", save_top_k=2)
        >>> run = wb.train(net, loader, epochs=2, fetch={"loss": loss}, startup=net_startup, valid=loader,
        ...                checkpoints=best, progress=False)
        >>> run.wait().last_model_path.endswith("last.checkpoint")
        True
    """

    dirpath: str | os.PathLike[str]
    monitor: str | None = None
    mode: Literal["min", "max"] = "min"
    save_top_k: int = 1
    save_last: bool = True
    every_n_epochs: int | None = None
    every_n_train_steps: int | None = None

    def __post_init__(self) -> None:
        if not path_text(self.dirpath, "dirpath"):
            raise InvalidType(f"ModelCheckpoint takes a folder as dirpath, got {self.dirpath!r}")
        if self.monitor is not None and not isinstance(self.monitor, str):
            raise InvalidType(f"ModelCheckpoint takes a label of run.history as monitor, got {self.monitor!r}")
        if self.mode not in ("min", "max"):
            raise InvalidArgument(f"ModelCheckpoint takes 'min' or 'max' as mode, got {self.mode!r}")
        _require_count("save_top_k", self.save_top_k, -1)
        for name in ("every_n_epochs", "every_n_train_steps"):
            if getattr(self, name) is not None:
                _require_count(name, getattr(self, name), 1)
        if self.every_n_epochs is not None and self.every_n_train_steps is not None:
            raise InvalidArgument("ModelCheckpoint looks every_n_epochs or every_n_train_steps; leave one out")


def _require_count(name: str, value: Any, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise InvalidArgument(f"ModelCheckpoint takes a number >= {least} as {name}, got {value!r}")


class Keeper:
    """Keeps the checkpoints of one run; an observer of it. Whatever a file does, the run goes on.

    Attributes:
        best: those that stay, the best first.
        last: name of the newest one's file, None if there is none.
    """

    def __init__(
        self,
        asked: ModelCheckpoint,
        run: Run,
        loop: TrainingLoop,
        monitor: str | None,
        writers: TrainerWriters | None,
        write: Callable[[str], None] | None,
    ) -> None:
        self.asked, self.monitor, self._writers = asked, monitor, writers
        self.folder = Path(asked.dirpath).absolute()
        self.best: list[Kept] = []
        self.last: str | None = None
        self._write = write
        self._is_validated = loop.validation is not None and monitor in loop.validation.labels
        self._epoch = self._looked = 0  # epochs at the last look, steps whose values it has judged
        self._saved = -1  # step of the newest checkpoint
        self._trouble: str | None = None

    def state(self) -> KeptFiles:
        """What goes with a checkpoint, so that the run that goes on from it keeps the same ones."""
        folder = os.path.abspath(self.folder)
        return KeptFiles(folder, self.monitor, self.asked.mode, tuple(self.best), self.last, self._epoch, self._looked)

    def go_on(self, state: KeptFiles | None, run: Run) -> None:
        """Take over the checkpoints of the run before, if they are in the same folder.

        Of the best those that are still there, if they were the best by the same values.
        """
        self._epoch, self._looked = run.epoch, run.step
        if state is None or state.folder != os.path.abspath(self.folder):
            return
        self._epoch, self._looked = state.epoch, state.looked
        self.last = state.last if self._can_replace(state.last) else None
        if (state.monitor, state.mode) == (self.monitor, self.asked.mode):
            there = [kept for kept in state.best if os.path.exists(self._path(kept.name))]
            self.best = sorted(there, key=lambda kept: self._rank(kept.score))
        for kept in self.best:
            run.add_checkpoint(kept.step, self._path(kept.name))
        self._show(run)

    def _can_replace(self, name: str | None) -> bool:
        """Whether what several processes save can take the place of what is there: a folder that of a folder."""
        return name is not None and not (self._writers is not None and os.path.isfile(self._path(name)))

    def __call__(self, run: Run) -> None:
        if run.finished or run.error is not None:
            ended = (State.DONE, State.STOPPED) if self._writers is None else (State.DONE,)  # one may be stopped alone
            if self.asked.save_last and run.state in ended and run.step > max(self._saved, 0):
                self._save_last(run)
        elif self._is_time(run):
            self._look(run)

    def may_look(self, step: int, ends_pass: bool) -> bool:
        """Whether it may have to save behind a step, to which the run has to come to rest then."""
        if self.asked.every_n_train_steps is not None:
            return step % self.asked.every_n_train_steps == 0
        return ends_pass

    def _is_time(self, run: Run) -> bool:
        has_evaluated = run.validated[-1:] == [run.step]
        if self._is_validated and not has_evaluated:
            return False
        if self.asked.every_n_train_steps is not None:
            return run.step % self.asked.every_n_train_steps == 0 and run.step > self._looked
        if self.asked.every_n_epochs is not None:
            return run.epoch >= self._epoch + self.asked.every_n_epochs
        return run.step > self._looked if self._is_validated else run.epoch > self._epoch

    def _look(self, run: Run) -> None:
        score, self._epoch, self._looked = self._score(run), run.epoch, run.step
        if self._writers is not None:
            score = json.loads(self._writers.choice_of_first(json.dumps(score), "the score of the step"))
        if score is not None and self._is_among_the_best(score):
            self._save_best(run, score)
        if self.asked.save_last:
            self._save_last(run)

    def _score(self, run: Run) -> float | None:
        values = run.history.get(self.monitor or "", [])
        judged = values[-1:] if self._is_validated else values[self._looked : run.step]
        score = sum(judged) / len(judged) if judged else math.nan
        return None if math.isnan(score) else score

    def _is_among_the_best(self, score: float) -> bool:
        count = self.asked.save_top_k
        if count == -1 or len(self.best) < count:
            return True
        return count > 0 and self._rank(score) < self._rank(self.best[-1].score)

    def _rank(self, score: float) -> float:
        return score if self.asked.mode == "min" else -score

    def _save_best(self, run: Run, score: float) -> None:
        newest = Kept(score, run.step, self._free(stem_of(run.epoch, run.step)))
        before = self.best
        ranked = sorted([*before, newest], key=lambda kept: self._rank(kept.score))
        self.best = ranked if self.asked.save_top_k == -1 else ranked[: self.asked.save_top_k]
        if not self._save(run, newest.name):
            self.best = before
            return
        for kept in set(before) - set(self.best):
            self._remove(run, kept.name)
        self._show(run)

    def _save_last(self, run: Run) -> None:
        before = self.last
        self.last = before or self._free(LAST)
        if not self._save(run, self.last):
            self.last = before
        self._show(run)

    def _save(self, run: Run, name: str) -> bool:
        assert self._write is not None
        path = self._path(name)
        try:
            self._write(path)
        except Exception as error:
            self._tell(run, path, error)
            return False
        self._saved, self._trouble = run.step, None
        run.add_checkpoint(run.step, path)
        return True

    def _remove(self, run: Run, name: str) -> None:
        path = self._path(name)
        run.drop_checkpoint(path)
        if self._writers is None or self._writers.is_first:
            with suppress(OSError):  # gone already, or to stay
                remove_checkpoint(Path(path))

    def _path(self, name: str) -> str:
        return str(self.folder / name)

    def _free(self, stem: str) -> str:
        """A name that no file in the folder has."""
        name, number = f"{stem}{SUFFIX}", 0
        while os.path.lexists(self._path(name)):
            number += 1
            name = f"{stem}-v{number}{SUFFIX}"
        return name if self._writers is None else self._writers.choice_of_first(name, "the name of the checkpoint")

    def _show(self, run: Run) -> None:
        best = (self.best[0].score, self._path(self.best[0].name)) if self.best else None
        run.keeps(best, None if self.last is None else self._path(self.last))

    def _tell(self, run: Run, path: str, error: Exception) -> None:
        why = str(error) or type(error).__name__
        if self._trouble is None:
            file = "" if path in why else f" in {path}"
            tell_anyway(f"run {run.name!r} goes on without its checkpoint of step {run.step}{file}: {why}")
        self._trouble = why


def left_by_the_start_before(asked: Any) -> str | None:
    """The newest `last` checkpoint of a job that was started again because a process was lost; None if there is none.

    Which are its own, and which is the newest, they say themselves.

    Args:
        asked: a folder or a ModelCheckpoint.
    """
    if os.environ.get(STARTS, "0") == "0":
        return None
    folder = Path(asked.dirpath if isinstance(asked, ModelCheckpoint) else asked)
    written = []
    for path in filter(is_checkpoint, folder.glob(f"{LAST}*{SUFFIX}")):
        with suppress(InvalidArgument, OSError):  # of something else
            origin = origin_of(path)
            if origin.launched == os.environ.get(LAUNCHED):
                written.append((origin.starts, origin.step, str(path)))
    return max(written)[-1] if written else None


def keeper_of(
    asked: Any,
    run: Run,
    loop: TrainingLoop,
    writers: TrainerWriters | None,
    write: Callable[[str], None] | None,
) -> Keeper:
    """What keeps the checkpoints of a run that has not begun, once it is subscribed there.

    Args:
        asked: a folder or a ModelCheckpoint.
        writers: the processes that train together, each of which has one: they keep the same; write: how they write.

    Raises:
        InvalidType: something else. InvalidArgument: the run records nothing of the label that is to be monitored.
    """
    if not isinstance(asked, ModelCheckpoint | str | os.PathLike):
        raise InvalidType(f"train takes a folder or a ModelCheckpoint as checkpoints, got {asked!r}")
    settings = asked if isinstance(asked, ModelCheckpoint) else ModelCheckpoint(asked)
    known = [*(() if loop.validation is None else loop.validation.labels), *loop.labels]
    if settings.monitor is not None and settings.monitor not in known:
        hint = did_you_mean(settings.monitor, known)
        raise InvalidArgument(f"nothing is recorded as {settings.monitor!r}, which is to be monitored.{hint}")
    return Keeper(settings, run, loop, settings.monitor or next(iter(known), None), writers, write)
