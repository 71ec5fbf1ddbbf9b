"""A training that is asked to end saves and ends: TERM and USR1 become a question that all processes answer alike."""

from __future__ import annotations

import signal
from collections.abc import Callable
from types import FrameType
from typing import Any

from .session import at_finish, current

SIGNALS = (signal.SIGTERM, signal.SIGUSR1)
_Handler = Callable[[int, FrameType | None], Any] | int | None


class _Ear:
    """Hears the signals from the first question on: before it, and in scripts that never ask, they do what they did."""

    def __init__(self) -> None:
        self.heard = False
        self.agreed = False
        self.asked = 0
        self._before: dict[signal.Signals, _Handler] = {}

    def listen(self) -> None:
        if not self._before:
            self._before = {number: signal.signal(number, self._hear) for number in SIGNALS}

    def forget(self) -> None:
        """Handlers that others have set since are theirs."""
        for number, handler in self._before.items():
            if signal.getsignal(number) == self._hear:
                signal.signal(number, handler)
        self._before = {}
        self.heard, self.agreed, self.asked = False, False, 0

    def _hear(self, number: int, frame: FrameType | None) -> None:
        self.heard = True
        before = self._before.get(signal.Signals(number))
        if callable(before):
            before(number, frame)


_ear = _Ear()


def should_stop(every: int = 1) -> bool:
    """Whether TERM or USR1 has come to any of the processes; the answer is the same in all of them.

    All processes have to ask equally often, because they agree over the network: each step of a long loop may ask with
    *every* = 50, which agrees at each 50th question and repeats that answer at the others. From the first question on
    these signals no longer end the process, so ask regularly. It has to be in the main thread: ValueError.
    """
    context = current()
    _ear.listen()
    _ear.asked += 1
    if context.world_size == 1:
        return _ear.heard
    if not _ear.agreed and _ear.asked % every == 0:
        _ear.agreed = _any(_ear.heard)
    return _ear.agreed


def _any(mine: bool) -> bool:
    import torch
    import torch.distributed as dist

    context = current()
    flag = torch.tensor([int(mine)], device=context.device if "nccl" in context.backend else "cpu")
    dist.all_reduce(flag, dist.ReduceOp.MAX)
    return bool(flag.item())


at_finish(_ear.forget)
