"""A deck as its journal leaves it, before a run's tasks are chosen: what `state:blocked` and the like mean then."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..adapters import host
from ..core.apply import derive, replay
from ..core.build import build
from ..core.deck import Deck
from ..core.events import Fact, OptionsChanged, RunEnded, RunStarted
from ..core.phases import FINAL, Phase, Waiting
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
        replay(deck, _whoever_was_chosen(deck, facts))
        if deck.run.number:
            derive(deck)
        index_of = {gpu.uuid: gpu.index for gpu in gpus}
        return [subject(deck, task, index_of) for task in deck.tasks]

    return look


def before_the_run(facts: Sequence[Fact]) -> Sequence[Fact]:
    """Those by which the tasks of the newest run were chosen."""
    starts = (at for at in range(len(facts) - 1, -1, -1) if isinstance(facts[at], (RunStarted, OptionsChanged)))
    return facts[: next(starts, len(facts))]


def _whoever_was_chosen(deck: Deck, facts: Sequence[Fact]) -> Iterator[Fact]:
    """Facts, one by one, for `replay`. What waits when its run ends was left out of it, and is as it was before."""
    before: dict[int, Phase] = {}
    for fact in facts:
        if isinstance(fact, RunStarted):
            before = {task.index: task.phase for task in deck.tasks if isinstance(task.phase, FINAL)}
        yield fact
        if isinstance(fact, RunEnded):
            for index, phase in before.items():
                if isinstance(deck.tasks[index].phase, Waiting):
                    deck.move(deck.tasks[index], phase)
