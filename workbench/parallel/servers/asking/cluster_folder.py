"""One folder for a whole cluster: every server writes what it holds, trainer 0 what only trainers have.

The manifest comes last; see `checkpoint.parts`. What lies where does not depend on the number of servers that read it.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

from workbench.checkpoint.files import write_tensors
from workbench.checkpoint.parts import claimed, part_of, require_folder
from workbench.checkpoint.pieces import Extent, SavedPiece, write_pieces
from workbench.errors import Unavailable
from workbench.parallel.servers.asking.exchange import answered
from workbench.parallel.servers.asking.links import asking, links_to, settle_pushes

Held = Mapping[str, Extent]
"""Variables of a server by their names there: which rows of which variable of the program each of them is."""


def save_cluster(
    folder: Path, servers: Mapping[str, Held], own: Mapping[str, np.ndarray], trainer: int, program: str = ""
) -> None:
    """Write what all servers hold, and `own`; what was saved in the folder before is replaced whole or not at all.

    The trainer is between two of its steps, so synchronous servers all write the same one.

    Args:
        folder: one that all processes see. servers: by their endpoints. program: what they are to serve; "" takes any.

    Raises:
        PeerFailed: a server is lost. Unavailable: its part is not here. EnforceNotMet: it tells why it wrote none.
        OSError: this process cannot write.
    """
    require_folder(folder)
    with claimed(folder) as number:
        try:
            pieces = list(_written(folder, number, servers, trainer, program))
            last = len(servers)
            write_tensors(part_of(folder, number, last), own)
        except BaseException:
            shutil.rmtree(part_of(folder, number, 0).parent, ignore_errors=True)
            raise
        write_pieces(folder, number, last + 1, [*pieces, *(SavedPiece(Extent(name), last) for name in own)])


def _written(
    folder: Path, number: int, servers: Mapping[str, Held], trainer: int, program: str
) -> Iterator[SavedPiece]:
    """Have every server write its part; what lies there now. What several of them have alike, the first one writes."""
    seen: set[Extent] = set()
    asked, told = {}, {}
    settle_pushes()
    with asking(trainer):
        links = links_to(servers, trainer, program)
        for part, (endpoint, held) in enumerate(servers.items()):
            told[endpoint] = mine = {name: extent for name, extent in held.items() if extent not in seen}
            seen.update(mine.values())
            keys = [extent.key for extent in mine.values()]
            fields = {"folder": str(folder), "save": number, "part": part, "wanted": [*mine], "keys": keys}
            asked[endpoint] = links[endpoint].start("part", {}, **fields)
        answers = answered(asked)
    for part, endpoint in enumerate(servers):
        path = part_of(folder, number, part)
        if not path.is_file():
            raise Unavailable(f"server {endpoint} has written {path}, and it is not here: choose a shared folder")
        for name in answers[endpoint].names("names"):
            yield SavedPiece(told[endpoint][name], part)
