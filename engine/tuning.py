"""How the interpreter is set: no long pauses between an end and the next start, or while a large deck is read."""

from __future__ import annotations

import contextlib
import gc
import sys
from collections.abc import Generator

_COLLECT_EVERY = 5_000
"""Objects made since the last collection: about a millisecond's work."""
_SWITCH_S = 0.0005
"""The journal's thread waits for the interpreter after each commit; the default of 5 ms would be its latency."""


def settle() -> None:
    """A collection over a large deck takes tens of milliseconds: what is loaded by now is left alone, and the rest is
    looked through a little at a time, between turns (`tidy`)."""
    gc.collect()
    gc.freeze()
    gc.disable()
    sys.setswitchinterval(_SWITCH_S)


def tidy() -> None:
    """Look through what was made since the last time, if it is enough. Call where nobody waits."""
    made = gc.get_count()[0]
    if made <= _COLLECT_EVERY:
        return
    if made < 10 * _COLLECT_EVERY:  # more at once is a large deck being queued: it stays, why look through it
        gc.collect()
    gc.freeze()


@contextlib.contextmanager
def without_collector() -> Generator[None]:
    """While hundreds of thousands of objects come to stay, looking for garbage among them doubles the time."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
