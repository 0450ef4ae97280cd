"""Tab completion behind our magics: names of programs, options, names of variables."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from IPython.core.completer import CompletionContext, SimpleCompletion, SimpleMatcherResult, context_matcher
from IPython.core.magic import Magics

from workbench.errors import EnforceNotMet
from workbench.experiments import runs
from workbench.framework.program.variable import Variable
from workbench.layers.layer import Layer
from workbench.magics.arguments import options
from workbench.magics.dashboards import targets
from workbench.magics.runs import comparable
from workbench.notebook.programs.session import Session
from workbench.notebook.steps.profiling import executors, feeds
from workbench.notebook.steps.stepping import breakpoints, steppers
from workbench.optimizer.optimizer import Optimizer

_LINE = re.compile(r"\s*(?:[\w, ]+=\s*)?(%%?\w+)\s+(.*)", re.DOTALL)  # `%program net`, `run = %train net`
# Options behind which anything may stand
_FREE = (
    "--steps", "--epochs", "--seed", "-n", "--device", "--devices", "--valid-every", "--checkpoints", "--monitor",
    "--loss",
)  # fmt: skip


class MagicCompletion:
    """Completes the arguments of the magics of one shell; Python's own completions are left out there."""

    def __init__(self, shell: Any, session: Session, magics: Sequence[Magics]) -> None:
        self.shell, self.session = shell, session
        escapes = {"line": "%", "cell": "%%"}
        self.methods = {
            escapes[kind] + name: getattr(owner, method)
            for owner in magics
            for kind, names in type(owner).magics.items()
            for name, method in names.items()
        }

        @context_matcher(identifier="workbench")
        def matcher(context: CompletionContext) -> SimpleMatcherResult:
            return self.match(context)

        self.matcher = matcher

    def add(self) -> None:
        """Take part in the shell's completion."""
        self.shell.Completer.custom_matchers.append(self.matcher)

    def remove(self) -> None:
        """Take no part any more."""
        matchers = self.shell.Completer.custom_matchers
        if self.matcher in matchers:
            matchers.remove(self.matcher)

    def match(self, context: CompletionContext) -> SimpleMatcherResult:
        """What fits at the cursor; nothing, if it is not behind one of our magics."""
        line = _LINE.fullmatch(context.line_with_cursor[: context.cursor_position])
        method = self.methods.get(line[1]) if line else None
        in_cell_body = line is not None and line[1].startswith("%%") and context.cursor_line > 0
        if line is None or method is None or in_cell_body:
            return {"completions": [], "suppress": False}
        fitting = [c for c in self.candidates(method, line[2], context.token) if c.startswith(context.token)]
        return {
            "completions": [SimpleCompletion(text=c, type="magic argument") for c in fitting],
            "suppress": True,
        }

    def candidates(self, method: Callable[..., Any], text: str, token: str) -> list[str]:
        """What may stand where the cursor is.

        Args:
            text: the arguments up to the cursor; token: the word the cursor is in.
        """
        if token.startswith("-"):
            return options(method)
        words = text.removesuffix(token).split()
        previous = words[-1] if words else ""
        if "--fetch" in words and not any(w.startswith("-") for w in words[words.index("--fetch") + 1 :]):
            return [n for n, v in self.session.namespace.items() if isinstance(v, Variable) and n[0] != "_"]
        if previous in _FREE:
            return []
        if previous == "--valid":
            return self.session.loaders()
        if previous == "--mode":
            return ["min", "max"]
        if method.__name__ in ("runs", "compare"):
            return self._recorded(method.__name__, words, previous)
        if method.__name__ == "profile_step":
            return self._profiled(words)
        if method.__name__ == "step":
            return self._stepped(words, previous)
        if method.__name__ in ("dashboard", "ssa", "scopes", "feeds", "drop_scopes"):
            named = [w for w, before in zip(words, ["", *words], strict=False) if w[0] != "-" and before != "--devices"]
            return [] if named else targets(self.session.own())
        if method.__name__ == "train" and previous == "--optimizer":
            return [n for n, v in self.session.own().items() if isinstance(v, Optimizer)]
        if method.__name__ == "train" and len(words) == 1:
            return self.session.loaders()
        if method.__name__ == "train" and not words:
            layers = [n for n, v in self.session.own().items() if isinstance(v, Layer)]
            return [*self.session.programs(), *layers]
        return list(self.session.programs())

    def _recorded(self, magic: str, words: list[str], previous: str) -> list[str]:
        with suppress(EnforceNotMet):  # a file of runs that cannot be read is told when the magic runs
            if magic == "compare":
                return [name for name in comparable(self.session.own()) if name not in words]
            if previous == "--sort" or "--columns" in words:
                return runs().columns
            if previous in ("--tag", "--name"):
                words_of = [run.tags if previous == "--tag" else [run.name] for run in runs()]
                return list(dict.fromkeys(word for of_run in words_of for word in of_run))
        return []

    def _profiled(self, words: list[str]) -> list[str]:
        names = self.session.own()
        return executors(names) if not words else feeds(names) if len(words) == 1 else []

    def _stepped(self, words: list[str], previous: str) -> list[str]:
        if previous == "--as":
            return steppers(self.session.own())
        if previous == "--until":
            return breakpoints(self.session.programs().values())
        valued = ("--as", "--until", "--device", "-n")
        given = [w for w, before in zip(words, ["", *words], strict=False) if w[0] != "-" and before not in valued]
        return self._profiled(given)
