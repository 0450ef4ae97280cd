"""Colours, marks and type of the pictures: those of the dashboard, on white, whatever the user's own style is."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Sized
from typing import Any, ParamSpec, TypeVar

from workbench.experiments.charts.line_chart import COLORS
from workbench.graph.beyond import BETWEEN_PROCESSES, meets_servers
from workbench.graph.ssa import COLLECTIVES

# Colours that people with any kind of colour vision can tell apart (Okabe and Ito, 2008); never colour alone.
ROLES = {
    "forward": "#0072b2",
    "backward": "#d55e00",
    "optimize": "#009e73",
    "server": "#b07d00",
    "collective": "#cc79a7",
}
MARKS = {"forward": ">", "backward": "<", "optimize": "D", "server": "o", "collective": "h"}
KINDS = tuple(ROLES)
WAIT = "wait"  # of a thread: no colour, for nothing runs
SERIES = COLORS
DASHES = ("-", (0, (5, 1.5)), (0, (1.5, 1)), (0, (6, 1.5, 1.5, 1.5)))
TEXT, FAINT, LINE, BAND, ALARM = "#1a1a1a", "#595959", "#b9bec4", "#f4f5f7", "#b00020"

_SETTINGS = {
    "font.family": ["sans-serif"],
    "font.sans-serif": ["DejaVu Sans", "Arial", "Helvetica", "sans-serif"],
    "font.size": 8.0,
    "text.color": TEXT,
    "axes.edgecolor": LINE,
    "axes.labelcolor": FAINT,
    "axes.titlesize": 9.0,
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "xtick.color": LINE,
    "ytick.color": LINE,
    "xtick.labelcolor": FAINT,
    "ytick.labelcolor": FAINT,
    "legend.frameon": False,
    "legend.fontsize": 8.0,
    "hatch.linewidth": 0.6,
    "text.parse_math": False,  # names may have a $
    "svg.fonttype": "none",
    "svg.hashsalt": "workbench",
}
# Settings of the running program that are not ours to change, not even for a moment.
_OTHERS = (
    "backend",
    "interactive",
    "toolbar",
    "webagg",
    "tk.",
    "macosx",
    "keymap",
    "animation",
    "figure.hooks",
    "date",
)

# Matplotlib's settings are one table per process; while they are ours, no other thread of ours may put them back.
_lock = threading.RLock()

P = ParamSpec("P")
R = TypeVar("R")


def styled(draw: Callable[P, R]) -> Callable[P, R]:
    """Let a function draw with matplotlib's own defaults and the settings above; the user's come back afterwards."""

    @functools.wraps(draw)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> R:
        import matplotlib

        ours: Any = {k: v for k, v in matplotlib.rcParamsDefault.items() if not k.startswith(_OTHERS)}
        ours.update(_SETTINGS)
        with _lock, matplotlib.rc_context(ours):
            return draw(*args, **kwargs)

    return wrapper


def kind_of(type: str, role: str) -> str:
    """One of `KINDS`, of an op of this type with this role ("Backward|Loss")."""
    if type in COLLECTIVES or type in BETWEEN_PROCESSES:
        return "collective"
    if meets_servers(type):
        return "server"
    if "Optimize" in role or "LRSched" in role:
        return "optimize"
    return "backward" if "Backward" in role else "forward"


def tint(color: str, share: float = 0.16) -> str:
    """So much of the colour (`#rrggbb`), the rest white."""
    parts = (int(color[k : k + 2], 16) for k in (1, 3, 5))
    return "#" + "".join(f"{round(255 + (part - 255) * share):02x}" for part in parts)


def device_color(device: int) -> str:
    """The colour of a device, or of a run; after eight they begin again."""
    return SERIES[device % len(SERIES)]


def lonely(values: Sized) -> str:
    """The marker of a line: a dot if it has one point only, which could not be seen otherwise."""
    return "o" if len(values) == 1 else ""


def dashes(number: int) -> Any:
    """A line style that goes with `device_color`."""
    return DASHES[number % len(DASHES)]
