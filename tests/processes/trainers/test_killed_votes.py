"""A trainer that is killed between votes and their outcome: those that live have all applied the step, or none has."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.processes.ranks import is_open_mpi, require_mpi, run_ranks
from tests.processes.trainer_steps import STEPS

pytestmark = pytest.mark.processes

_SURVIVE = ("--with-ft", "ulfm")  # mpiexec lets the others live

_KILLED = """
    import zlib
    from pathlib import Path
    from workbench.runtime.comm.mpi.memory.window import Window, Word

    folder, killed, word, is_behind = Path(sys.argv[1]), int(sys.argv[2]), Word[sys.argv[3]], sys.argv[4] == "behind"
    publish = Window.publish

    def killed_there(window, told, value):
        is_there = rank == killed and told == word and executor.inspection.steps == 3
        if not is_there or is_behind:
            publish(window, told, value)
        if is_there:
            os.kill(os.getpid(), signal.SIGKILL)

    Window.publish = killed_there
    said = ""
    for number in range(6):
        try:
            executor.run([loss, *weights], feed=feed())  # so many that they vote in Python
        except EnforceNotMet as error:
            said = said or f"{type(error).__name__}: {error}"
    told = folder / f"told by {rank}"
    told.with_suffix(".part").write_text(f"{executor.inspection.steps} {zlib.crc32(held())}\\n{said}")
    told.with_suffix(".part").rename(told)
    until = time.monotonic() + 80
    while len(list(folder.glob("told by ?"))) < 2 and time.monotonic() < until:
        time.sleep(0.02)
    os._exit(0)
"""


@pytest.mark.parametrize(
    ("killed", "word", "side", "steps"),
    [(1, "VOTE", "behind", {3, 4}), (0, "VERDICT", "before", {3}), (0, "VERDICT", "behind", {4})],
    ids=["behind its vote", "before the verdict", "behind the verdict"],
)
def test_those_that_live_have_all_applied_the_step_or_none(
    killed: int, word: str, side: str, steps: set[int], tmp_path: Path
) -> None:
    require_mpi()
    if not is_open_mpi():
        pytest.skip("MPICH ends all processes as soon as one of them is gone")
    job = run_ranks(STEPS + _KILLED, 3, 120, (str(tmp_path), str(killed), word, side), _SURVIVE)
    told = {path.name: path.read_text() for path in tmp_path.glob("told by ?")}
    assert len(told) == 2 and not job.orphans, str(job)
    held = {text.splitlines()[0] for text in told.values()}
    assert len(held) == 1 and int(held.pop().split()[0]) in steps, (told, str(job))
    assert all(f"rank {killed}" in text and "gone" in text for text in told.values()), told
