"""A deck as its journal leaves it, before a run's tasks are chosen: what `state:blocked` and the like mean then."""

from __future__ import annotations

from collections.abc import Sequence

from ..adapters import host
from ..core.apply import derive, replay
from ..core.build import build
from ..core.events import Fact, OptionsChanged, RunStarted
from ..core.selector import Subject
from ..core.spec import DeckFile, DeckSettings, TaskSpec
from ..core.subject import subject
from ..ports import GpuInfo
from ..taskfile.select import Look
from .core_gpus import core_gpus


def past_of(facts: Sequence[Fact], gpus: Sequence[GpuInfo]) -> Look:
    """All tasks of a file as *facts* leave them, whatever runs have left out."""

    def look(settings: DeckSettings, tasks: Sequence[TaskSpec]) -> list[Subject]:
        deck = build(DeckFile("", "", settings, tuple(tasks)), gpus=core_gpus(settings, gpus), cores=host.cores())
        replay(deck, facts)
        if deck.run.number:
            derive(deck)
        index_of = {gpu.uuid: gpu.index for gpu in gpus}
        return [subject(deck, task, index_of) for task in deck.tasks]

    return look


def before_the_run(facts: Sequence[Fact]) -> Sequence[Fact]:
    """Those by which the tasks of the newest run were chosen."""
    starts = (at for at in range(len(facts) - 1, -1, -1) if isinstance(facts[at], (RunStarted, OptionsChanged)))
    return facts[: next(starts, len(facts))]
