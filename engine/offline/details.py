"""What there is to know of one task of a deck that no engine runs, with the commands that its attempts executed."""

from __future__ import annotations

from collections.abc import Mapping

from ..adapters import host
from ..attempt.box import Box
from ..attempt.shown_command import ToldCommands
from ..core.deck import Task
from ..serve.details import TaskDetails, details_of
from .deck import Offline


class OfflineDetails:
    """Of one deck. Reads small files in log_dir."""

    def __init__(self, offline: Offline) -> None:
        self._offline = offline
        box = Box(offline.environment, lambda _: "", offline.index_of, cpus_each=0, cores=host.cores())
        self._commands = ToldCommands(offline.deck, offline.paths, box)

    def of(self, task: Task, index_of: Mapping[str, int]) -> TaskDetails:
        """*index_of*: GPUs by UUID."""
        self._offline.gpus_of(task)  # which its command names
        told = self._commands
        return details_of(
            self._offline.deck,
            task,
            self._offline.paths,
            index_of,
            host.boottime_s(),
            told.of(task),
            told.launch(task),
            told.hiding(task),
        )
