"""ExecutionStrategy: how the steps of a compiled program are run (section 5.3 of the engine's rules)."""

from __future__ import annotations

from workbench.graph.options import Option, Options, seconds, switch, whole, word
from workbench.runtime.devices import processors


class ExecutionStrategy(Options):
    """How steps are run; nothing here changes a bit of the results.

    Every field has a default, a type that is checked when it is set, and an effect, see
    `ExecutionStrategy.effect(name)`. Fields may be changed at any time; plans that exist keep their threads.

    Example:
        >>> wb.enable_static()
        >>> strategy = static.ExecutionStrategy()
        >>> strategy.num_threads = 2
        >>> strategy.num_iteration_per_drop_scope = 100
    """

    __slots__ = ()

    num_threads = Option(
        0,
        whole(0),
        "step",
        "Threads that run operators, on one device together; 0 becomes the number of processors at the first run, at "
        "least twice the number of devices; with GPUs four times that",
    )
    num_iteration_per_drop_scope = Option(
        100, whole(0), "step", "Runs after which the memory of temporaries is given back; 0: never"
    )
    num_iteration_per_run = Option(
        1, whole(1), "step", "Full iterations in one call, with use_experimental_executor = False only"
    )
    feed_split = Option(
        "floor",
        word("floor", "ceil"),
        "step",
        "How a dict feed of B rows is split over N devices: 'floor' gives B // N rows to each but the last, which gets "
        "the rest, 'ceil' gives ceil(B / N) to each as long as there are any",
    )
    keep_temporaries = Option(
        False, switch(), "step", "Every value keeps memory of its own until the next step, so that it can be looked at"
    )
    timeout = Option(
        600.0, seconds(), "step", "Longest time a step waits for a device, or for other trainers, in seconds"
    )
    _dry_run = Option(False, switch(), "step", "Prepares steps and runs no operator; run(fetch_list=[]) returns []")
    use_cuda = Option(True, switch(), "step", "Set at the first run to what the executor runs on")
    use_experimental_executor = Option(
        True, switch(), "notice", "there is one scheduler; False only lets num_iteration_per_run count"
    )
    allow_op_delay = Option(False, switch(), "notice", "it has none in Paddle either")
    use_thread_barrier = Option(False, switch(), "notice", "the devices of a trainer always wait for each other")

    @property
    def iterations(self) -> int:
        """Full iterations in one call."""
        return 1 if self.use_experimental_executor else self.num_iteration_per_run

    def settle(self, devices: int, use_cuda: bool = False) -> None:
        """Decide at the first run what was left open, in this object itself, and tell what has no effect.

        Args:
            devices: of the executor. use_cuda: whether they are GPUs.
        """
        self.tell_idle()
        self.use_cuda = use_cuda
        if self.num_threads == 0:
            self.num_threads = devices * 4 if use_cuda else max(devices * 2, processors())

    def idle(self) -> dict[str, str]:
        """The fields that were set and have no effect, with the reason."""
        reasons = super().idle()
        if self.num_iteration_per_run > 1:
            reasons.pop("use_experimental_executor", None)
            if self.use_experimental_executor:
                reasons["num_iteration_per_run"] = "it counts with use_experimental_executor = False only"
        return reasons
