"""Threads that wait in kernels: branches of one device overlap, and devices may outnumber processors."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import numpy as np
import pytest

import workbench as wb
from tests.parallel.models import Model, batch, build, classifier
from workbench import events, static
from workbench.runtime.devices import processors

pytestmark = pytest.mark.usefixtures("tape")


def branches() -> Model:
    """Two chains of products that have nothing to do with each other until the end."""

    def body() -> object:
        x = static.data("x", [None, 512])
        ends = []
        for _ in range(2):
            h = x
            for _ in range(4):
                h = static.nn.fc(h, 512, bias_attr=False)
            ends.append(h)
        return wb.mean(ends[0] + ends[1])

    return build(body)


def spans(threads: int) -> list[events.OpRun]:
    """The products of a step on one device."""
    model = branches().start()
    strategy = static.ExecutionStrategy()
    strategy.num_threads = threads
    exe = model.parallel(1, exec_strategy=strategy, loss_name=None)
    feed = {"x": np.ones((256, 512), np.float32)}
    exe.run([], feed=feed)
    runs: list[events.OpRun] = []
    with events.subscribe(lambda e: runs.append(e) if isinstance(e, events.OpRun) else None):
        exe.run([], feed=feed)
    return [e for e in runs if "mul" in e.op.type]


@pytest.mark.skipif(processors() < 2, reason="one processor")
def test_branches_of_one_device_run_at_the_same_time() -> None:
    products = spans(2)
    assert {e.thread for e in products} == {0, 1}
    first, second = ([e for e in products if e.thread == t] for t in (0, 1))
    begin = max(first[0].start, second[0].start)
    assert begin < min(first[-1].end, second[-1].end)


def test_one_thread_is_enough() -> None:
    assert {e.thread for e in spans(1)} == {0}


def test_bits_do_not_depend_on_the_threads() -> None:
    results = []
    for threads in (1, 2, 5):
        model = classifier(wb.optimizer.Adam(0.01), extra=lambda h: static.nn.fc(h, 300)).start()
        strategy = static.ExecutionStrategy()
        strategy.num_threads = threads
        exe = model.parallel(4, exec_strategy=strategy)
        for step in range(3):
            exe.run([], feed=batch(640, step))
        results.append(model.values())
    for values in results[1:]:
        assert all(values[n].tobytes() == results[0][n].tobytes() for n in values)


SCRIPT = """
import os, time
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
from tests.parallel.models import batch, classifier
import workbench as wb
wb.enable_static()
model = classifier(extra=lambda h: wb.static.nn.fc(h, 300)).start()
exe = model.parallel(8)
exe.run([], feed=batch(1024))
begin, used = time.perf_counter(), time.process_time()
for step in range(20):
    exe.run([], feed=batch(1024, step))
time.sleep(0.5)
print(time.process_time() - used - (time.perf_counter() - begin - 0.5))
"""


def test_eight_devices_on_one_processor_do_not_spin() -> None:
    """Processor time is what the work takes; waiting threads, also between steps, add next to nothing."""
    env = {**os.environ, "FLAGS_cpu_tape": "1"}
    done = subprocess.run([sys.executable, "-c", SCRIPT], env=env, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) < 0.1


def test_a_thread_without_work_goes_to_sleep() -> None:
    products = spans(2)
    assert products
    used = time.process_time()
    time.sleep(0.5)
    assert time.process_time() - used < 0.25
