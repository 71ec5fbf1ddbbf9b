"""Keeps attempt-N.gpu.json: at an attempt's end, and now and then before, so that a later engine goes on with it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from ..core.deck import Deck
from ..core.readings import GpuReading
from ..logs.files import AttemptPaths
from ..logs.gpu_history import GpuHistory, encode_history, read_history
from ..logs.writer import AttemptJsonWriter
from ..ports import Aside
from .usage import Usage, Used

SAVE_S = 30.0
_FIRST_SAVE_S = 5.0

Paths = Callable[[str, int], AttemptPaths]


class GpuHistories:
    """All methods on the loop's thread."""

    def __init__(self, deck: Deck, usage: Usage, writer: AttemptJsonWriter, paths: Paths, readers: Aside) -> None:
        self._deck = deck
        self._usage = usage
        self._writer = writer
        self._paths = paths
        self._readers = readers
        self._save_at: float | None = None

    def sampled(self, readings: Sequence[GpuReading]) -> None:
        self._usage.take(readings, self._deck.present_gpus)
        now = max((reading.at for reading in readings), default=0.0)
        if self._save_at is None:
            self._save_at = now + _FIRST_SAVE_S
        elif now >= self._save_at:
            self._save_at = now + SAVE_S
            self.save()

    def save(self) -> None:
        """What attempts that last have used so far."""
        for token, history in self._usage.histories().items():
            task = self._deck.active.get(token)
            attempt = task.attempt() if task is not None else None
            if task is not None and attempt is not None:
                path = self._paths(task.name, attempt.number).gpu_history
                self._writer.keep(path, encode_history(history))

    def go_on(self, token: str, paths: AttemptPaths) -> None:
        """An earlier engine started this attempt."""
        self._readers.submit(lambda: read_history(paths.gpu_history), partial(self._arrived, token))

    def _arrived(self, token: str, earlier: GpuHistory | None) -> None:
        if earlier is not None and token in self._deck.active:
            self._usage.go_on(token, earlier, self._deck.present_gpus)

    def ended(self, used: Used, paths: AttemptPaths) -> None:
        if len(used.history.at_s) > 1:
            self._writer.keep(paths.gpu_history, encode_history(used.history))
