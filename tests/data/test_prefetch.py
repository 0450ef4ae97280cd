"""The prefetch thread: bounded, stoppable, never silent, never hanging."""

import contextvars
import gc
import signal
import threading
import time
import weakref
from collections.abc import Callable, Iterator

import pytest

from workbench.data.prefetch import Prefetcher
from workbench.errors import Unavailable

DEADLINE = 5.0


def eventually(condition: Callable[[], bool]) -> bool:
    """Wait for another thread to make `condition` true."""
    end = time.monotonic() + DEADLINE
    while not condition() and time.monotonic() < end:
        time.sleep(0.002)
    return condition()


class Counting:
    """An endless source that says how many items were made and whether it was dropped."""

    def __init__(self) -> None:
        self.made = 0

    def items(self) -> Iterator[int]:
        while True:
            self.made += 1
            yield self.made


def test_items_come_in_order_and_the_end_stays_the_end() -> None:
    prefetcher = Prefetcher(iter(range(100)), depth=3)
    assert list(prefetcher) == list(range(100))
    assert list(prefetcher) == []
    assert eventually(lambda: not prefetcher._thread.is_alive())


@pytest.mark.parametrize("depth", [1, 2, 5])
def test_at_most_depth_items_exist_ahead(depth: int) -> None:
    source = Counting()
    prefetcher = Prefetcher(source.items(), depth)
    for taken in range(4):
        expected = taken + depth
        assert eventually(lambda expected=expected: source.made == expected)
        time.sleep(0.02)
        assert source.made == expected
        next(prefetcher)
    prefetcher.close()


def test_the_thread_does_not_keep_an_item_it_handed_over() -> None:
    class Item:
        pass

    release = threading.Event()
    alive: weakref.WeakSet[Item] = weakref.WeakSet()

    def new_item() -> Item:
        item = Item()
        alive.add(item)
        return item

    def items() -> Iterator[Item]:
        yield new_item()
        release.wait(DEADLINE)  # the thread is busy with the second item

    prefetcher = Prefetcher(items(), depth=1)
    next(prefetcher)
    assert eventually(lambda: len(alive) == 0)
    release.set()


def test_close_ends_the_thread_and_the_iteration() -> None:
    prefetcher = Prefetcher(Counting().items(), depth=2)
    assert next(prefetcher) == 1
    prefetcher.close()
    assert not prefetcher._thread.is_alive()
    assert list(prefetcher) == []
    prefetcher.close()


def test_a_dropped_iterator_ends_its_thread() -> None:
    prefetcher = Prefetcher(Counting().items(), depth=2)
    next(prefetcher)
    thread = prefetcher._thread
    del prefetcher
    gc.collect()
    assert eventually(lambda: not thread.is_alive())


def test_an_iterator_in_a_cycle_ends_its_thread_when_collected() -> None:
    prefetcher = Prefetcher(Counting().items(), depth=2)
    prefetcher.cycle = prefetcher  # type: ignore[attr-defined]
    thread = prefetcher._thread
    del prefetcher
    gc.collect()
    assert eventually(lambda: not thread.is_alive())


def test_an_error_comes_in_its_place_with_its_traceback() -> None:
    def items() -> Iterator[int]:
        yield 1
        yield 2
        raise KeyError("third")

    prefetcher = Prefetcher(items(), depth=5)
    assert [next(prefetcher), next(prefetcher)] == [1, 2]
    with pytest.raises(KeyError, match="third") as caught:
        next(prefetcher)
    assert "items" in [entry.name for entry in caught.traceback]
    assert list(prefetcher) == []


def test_system_exit_in_the_source_is_forwarded_too() -> None:
    def items() -> Iterator[int]:
        raise SystemExit(3)
        yield 0

    with pytest.raises(SystemExit):
        next(Prefetcher(items(), depth=1))


def test_timeout_says_what_the_thread_is_doing_and_does_not_wait_for_it() -> None:
    release = threading.Event()

    def items() -> Iterator[int]:
        release.wait(DEADLINE)
        yield 1

    prefetcher = Prefetcher(items(), depth=1, timeout=0.1, waiting_for=lambda: "loading sample 7")
    start = time.monotonic()
    threading.Timer(0.3, release.set).start()
    with pytest.raises(Unavailable, match=r"no batch within 0\.1 s: .* loading sample 7"):
        next(prefetcher)
    assert time.monotonic() - start < DEADLINE / 2
    assert list(prefetcher) == []


def test_keyboard_interrupt_while_waiting_ends_the_thread() -> None:
    release = threading.Event()

    def items() -> Iterator[int]:
        yield 1
        release.wait(DEADLINE)
        yield 2

    prefetcher = Prefetcher(items(), depth=1)
    assert next(prefetcher) == 1
    main = threading.main_thread().ident
    assert main is not None
    start = time.monotonic()
    threading.Timer(0.1, lambda: signal.pthread_kill(main, signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        next(prefetcher)
    assert time.monotonic() - start < DEADLINE / 2
    assert list(prefetcher) == []
    release.set()
    assert eventually(lambda: not prefetcher._thread.is_alive())


def test_the_source_runs_in_the_context_of_the_caller() -> None:
    setting: contextvars.ContextVar[str] = contextvars.ContextVar("setting", default="unset")
    setting.set("mine")
    assert list(Prefetcher((setting.get() for _ in range(2)), depth=1)) == ["mine", "mine"]


def test_threads_do_not_pile_up() -> None:
    before = threading.active_count()
    for _ in range(50):
        next(Prefetcher(Counting().items(), depth=2))
    gc.collect()
    assert eventually(lambda: threading.active_count() <= before)
