"""The folding of a graph, computed once: the page and the pictures read it from the `graph` message."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from workbench.notebook.figures.facts import Message, Nodes
from workbench.notebook.figures.graphs.boxes import first_boxes
from workbench.notebook.figures.graphs.groups import LEVELS, Group, groups_of, together_at
from workbench.notebook.figures.graphs.layout import fits

NODES, BOXES = 40, 60  # with more than so many, nodes, or groups of them, are put together


def fold_message(graph: Message) -> Message:
    """The part `fold` of a `graph` message that has none yet; see assets/src/README.md.

    It begins at the finest level at which the graph fits on a page.
    """
    nodes = Nodes.of(graph)
    groups = groups_of(nodes)
    part = _columns(nodes, groups)
    most = max(BOXES, 24 * len(set(nodes.device)))
    for level in LEVELS[:-1]:
        fold = _begun_at(part, groups, level)
        few = len(together_at(nodes, level)) <= (NODES if level == "op" else most)
        if few and fits(first_boxes({**graph, "fold": fold})):
            return fold
    return _begun_at(part, groups, LEVELS[-1])


def _columns(nodes: Nodes, groups: Sequence[Group]) -> Message:
    innermost = np.full(len(nodes), -1, np.int32)
    for number, group in enumerate(groups):
        innermost[list(group.nodes)] = number
    return {
        "node": innermost,
        "parent": np.array([group.parent for group in groups], np.int32),
        "title": [group.title for group in groups],
        "details": [list(group.details) for group in groups],
        "times": np.array([group.times for group in groups], np.int32),
    }


def _begun_at(part: Message, groups: Sequence[Group], level: str) -> Message:
    """Groups that are larger than those of the level are open."""
    larger = LEVELS[LEVELS.index(level) + 1 :]
    return {"level": level, **part, "open": np.array([group.level in larger for group in groups], np.uint8)}
