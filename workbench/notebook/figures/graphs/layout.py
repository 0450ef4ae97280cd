"""Where the boxes of a graph go: a lane per device and role, one across devices, columns from left to right.

Lengths are inches, y grows downwards. Time and memory grow with nodes and edges, no faster.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from workbench.notebook.figures.facts import ACROSS_SERVERS, Message, servers
from workbench.notebook.figures.graphs.boxes import Boxed, Folded, first_boxes

COLUMNS = 10  # more are not readable on a page; of single nodes, two or three may share one, one below the other
DEEP, ROWS = 3, 40
WIDTH, HEIGHT = 1.08, 0.36  # of a box
ACROSS, BELOW = 0.22, 0.14  # between boxes
MARGIN = 0.1  # between the boxes of a lane and its border
ACROSS_DEVICES = "across devices"
TO_SERVERS = "several servers"


class Lane(NamedTuple):
    """A horizontal band; device is as of `facts.Nodes`."""

    device: int
    kind: str
    top: float
    bottom: float


class Box(NamedTuple):
    """A group and where it is; x and y are its upper left corner, `lane` a position in `GraphPicture.lanes`.

    Attributes:
        depth: how many groups have to come before it, one after the other.
    """

    group: Boxed
    lane: int
    depth: int
    x: float
    y: float


class GraphPicture(NamedTuple):
    """A picture of a graph.

    Attributes:
        level: one of `groups.LEVELS`.
        source, target, order: edges between boxes, as in `Folded`.
    """

    level: str
    boxes: list[Box]
    lanes: list[Lane]
    source: np.ndarray
    target: np.ndarray
    order: np.ndarray
    width: float
    height: float


def layout(graph: Message) -> GraphPicture:
    """The graph of a `graph` message, folded as it says."""
    first = len(graph.get("devices", []))
    return place(first_boxes(graph), range(first, first + len(servers(graph))))


def fits(folded: Folded) -> bool:
    """Whether a picture of boxes is neither too wide nor too high for a page."""
    boxes = place(folded).boxes
    depth = max((box.depth for box in boxes), default=0) + 1
    rows, devices = len({box.y for box in boxes}), len({box.group.device for box in boxes})
    return depth <= COLUMNS * (DEEP if folded.level == "op" else 1) and rows <= max(ROWS, 8 * devices)


def place(folded: Folded, bands: Sequence[int] = ()) -> GraphPicture:
    """The boxes of groups; every server in `bands` has a lane, though nothing may go to it alone."""
    groups = folded.boxes
    depths = depths_of(len(groups), folded.source, folded.target)
    shared = max(1, min(DEEP, -(-(max(depths, default=0) + 1) // COLUMNS)))  # depths to a column
    keys = _lane_keys(groups, bands)
    lane_of = {key: number for number, key in enumerate(keys)}
    cells = [(lane_of[_lane_key(group)], depth // shared) for group, depth in zip(groups, depths)]
    rows, filled = [0] * len(groups), Counter[tuple[int, int]]()
    for k in sorted(range(len(groups)), key=lambda k: depths[k]):
        rows[k] = filled[cells[k]]
        filled[cells[k]] += 1
    heights = [max((n for (at, _), n in filled.items() if at == lane), default=1) for lane in range(len(keys))]
    lanes = _lanes(keys, heights)
    boxes = [
        Box(group, lane, depth, column * (WIDTH + ACROSS), lanes[lane].top + MARGIN + row * (HEIGHT + BELOW))
        for group, depth, (lane, column), row in zip(groups, depths, cells, rows)
    ]
    width = max((box.x + WIDTH for box in boxes), default=WIDTH)
    height = max((lane.bottom for lane in lanes), default=HEIGHT)
    return GraphPicture(folded.level, boxes, lanes, folded.source, folded.target, folded.order, width, height)


def depths_of(count: int, source: np.ndarray, target: np.ndarray) -> list[int]:
    """The depth of every group: as small as what it reads allows; of what reads nothing, one less than its reader's.

    Groups are in the order of their first nodes. An edge that goes back in this order, as there may be between groups,
    counts for nothing.
    """
    depths = [0] * count
    ahead = source < target
    pairs = sorted(zip(target[ahead].tolist(), source[ahead].tolist()))
    for after, before in pairs:
        depths[after] = max(depths[after], depths[before] + 1)
    nearest: dict[int, int] = {}
    for after, before in pairs:
        nearest[before] = min(depths[after], nearest.get(before, depths[after]))
    reads = {after for after, _ in pairs}
    for number, reader in nearest.items():
        if number not in reads:
            depths[number] = reader - 1
    used = {depth: number for number, depth in enumerate(sorted(set(depths)))}
    return [used[depth] for depth in depths]


def _lane_key(group: Boxed) -> tuple[int, str]:
    if group.device == ACROSS_SERVERS:
        return ACROSS_SERVERS, TO_SERVERS
    return (-1, ACROSS_DEVICES) if group.device < 0 else (group.device, group.kind)


def _lane_keys(groups: list[Boxed], bands: Sequence[int]) -> list[tuple[int, str]]:
    """Lanes from top to bottom: devices with their roles, what is across devices in the middle of them; servers."""
    roles = {"forward": 0, "backward": 1, "optimize": 2, "server": 3}
    keys = {_lane_key(group) for group in groups} | {(server, "server") for server in bands}
    devices = sorted({device for device, _ in keys if device >= 0 and device not in bands})
    middle = devices[(len(devices) - 1) // 2] if devices else -1
    between = {-1: middle + 0.5, ACROSS_SERVERS: min(bands, default=0) - 0.25}
    return sorted(keys, key=lambda key: (between.get(key[0], key[0]), roles.get(key[1], len(roles))))


def _lanes(keys: list[tuple[int, str]], heights: list[int]) -> list[Lane]:
    lanes, top, before = [], 0.0, None
    for (device, kind), rows in zip(keys, heights):
        top += 0.12 if before not in (None, device) else 0.0
        bottom = top + 2 * MARGIN + rows * HEIGHT + (rows - 1) * BELOW
        lanes.append(Lane(device, kind, top, bottom))
        top, before = bottom, device
    return lanes
