"""The sampling thread itself: pokes, and how often it reads."""

from __future__ import annotations

import itertools
import queue
import threading
import time

from tests.inside.adapters import MIN_GAP_S, Sampling

_LONG_S = 3600.0
_PATIENCE_S = 10.0


def _sampling(times: queue.Queue[float], period_s: float = _LONG_S) -> Sampling[float]:
    return Sampling("test-sampler", lambda: time.monotonic, times.put, period_s)


def test_pokes_without_end_do_not_read_without_end() -> None:
    times: queue.Queue[float] = queue.Queue()
    sampling = _sampling(times)
    read: list[float] = []
    while len(read) < 4:
        sampling.poke()
        read.append(times.get(timeout=_PATIENCE_S))
    sampling.stop()

    assert all(after - before >= 0.9 * MIN_GAP_S for before, after in itertools.pairwise(read))


def test_a_poke_during_a_read_brings_another_one() -> None:
    reading, go_on, done = threading.Event(), threading.Event(), queue.Queue[int]()

    def read() -> int:
        reading.set()
        go_on.wait(_PATIENCE_S)
        return 1

    sampling = Sampling("test-sampler", lambda: read, done.put, _LONG_S)
    reading.wait(_PATIENCE_S)
    sampling.poke()
    go_on.set()

    assert [done.get(timeout=_PATIENCE_S), done.get(timeout=_PATIENCE_S)] == [1, 1]
    sampling.stop()


def test_a_short_period_is_kept() -> None:
    times: queue.Queue[float] = queue.Queue()
    sampling = _sampling(times, period_s=0.001)
    read = [times.get(timeout=_PATIENCE_S) for _ in range(3)]
    sampling.stop()

    assert read == sorted(read)
