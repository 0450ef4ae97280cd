"""`workbench bench --coverage`: which nodes of which programs run by NumPy instead of kernels, and what they cost."""

from collections.abc import Iterator, Sequence
from importlib import import_module
from typing import Any

from workbench.cli.bench import header
from workbench.cli.failure import CommandError

WORST = 3  # kinds of nodes of a program


def report(names: Sequence[str], seconds: float) -> Iterator[str]:
    """A row per program, shown when it is measured; op types by dtype; how many nodes are worth a native form.

    Args:
        names: of programs, all if empty. seconds: for the steps of each.

    Raises:
        CommandError: there is no such program.
    """
    from workbench.experiments.bench.coverage.covered import all_programs
    from workbench.experiments.bench.coverage.measured import WORTH, coverage_of

    programs = all_programs()
    for name in names:
        if name not in programs:
            raise CommandError(f"no program {name!r}; there are {', '.join(programs)}")
    paddle = import_module(__name__.partition(".")[0])  # what users see is above all commands
    yield from header(1)
    yield ""
    yield f"{'program':<16}{'step ms':>9}{'by NumPy':>10}{'nodes':>7}{'of':>6}   worst, with their share of the step"
    measured = []
    for name in names or programs:
        measured.append(coverage_of(programs[name], paddle, seconds))
        yield program_line(measured[-1])
    yield ""
    yield from dtype_lines(measured)
    yield ""
    large = [len(program.large) for program in measured]
    concerned = sum(count > 0 for count in large)
    yield f"{sum(large)} nodes by NumPy take over {WORTH:.0%} of a step, in {concerned} of {len(measured)} programs"


def program_line(program: Any) -> str:
    worst = program.worst()
    kinds = [f"{kind.type} {kind.dtypes} x{kind.nodes} {kind.share:.1%} ({kind.why})" for kind in worst[:WORST]]
    more = [f"{len(worst) - WORST} more"] if len(worst) > WORST else []
    counts = f"{len(program.by_numpy):>7}{len(program.nodes):>6}"
    return f"{program.name:<16}{program.median * 1e3:>9.3f}{program.share:>10.1%}{counts}   {'; '.join(kinds + more)}"


def dtype_lines(programs: Sequence[Any]) -> Iterator[str]:
    """By op type, which dtypes of operands run natively, which by NumPy, which in both ways."""
    from workbench.experiments.bench.coverage.measured import lowerings

    yield f"{'op type':<34}  dtypes of its operands, by what runs them in all programs"
    for kind, ways in lowerings(programs):
        by_way = {way: [dtypes for dtypes, its in ways.items() if its == way] for way in ("native", "NumPy", "both")}
        yield f"{kind:<34}  " + "; ".join(f"{way}: {', '.join(of)}" for way, of in by_way.items() if of)
