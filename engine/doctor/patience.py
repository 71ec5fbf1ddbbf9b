"""Calls that a dead file server or name server may hold up for ever, given up after a while."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def within(limit_s: float, call: Callable[[], T]) -> T:
    """What *call* returns or raises; TimeoutError after *limit_s*. Its thread is then left behind, and holds up no
    exit."""
    answers: queue.SimpleQueue[tuple[T | None, Exception | None]] = queue.SimpleQueue()

    def work() -> None:
        try:
            answers.put((call(), None))
        except Exception as error:  # the thread ends here: who waits for the answer raises it
            answers.put((None, error))

    threading.Thread(target=work, name="doctor-patience", daemon=True).start()
    try:
        value, error = answers.get(timeout=limit_s)
    except queue.Empty:
        raise TimeoutError(f"no answer in {limit_s:g} s") from None
    if error is not None:
        raise error
    return value  # pyright: ignore[reportReturnType]
