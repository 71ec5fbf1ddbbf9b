"""Which tasks a run is about, and how those count that it leaves out."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from ..adapters import host
from ..core.apply import derive, replay
from ..core.apply_run import BY_HAND
from ..core.build import build, stand_in
from ..core.deck import Deck
from ..core.events import Fact, OptionsChanged, RunStarted
from ..core.recorded import Recorded
from ..core.selector import Subject
from ..core.spec import DeckFile, DeckSettings, TaskSpec
from ..core.subject import subject
from ..logs.files import LogFolder
from ..ports import GpuInfo
from ..taskfile.options import RunOptions
from ..taskfile.select import Look
from .gpus import core_gpus
from .options import decode, taking_in, which


def with_running(file: DeckFile, told: Recorded) -> DeckFile:
    """What runs belongs to the run, whatever is selected now: a later round must not start beside it."""
    return file if file.selected is None else replace(file, selected=file.selected | told.lasting.keys())


def with_newcomers(options: RunOptions, file: DeckFile, known: Collection[str]) -> RunOptions:
    """A selection ends with its run: it does not leave out what has come into the file since. *known*: the tasks that
    there were; none where nobody knows."""
    if not known or file.selected is None:
        return options
    new = [spec.name for spec in file.tasks if spec.name not in known and spec.name not in file.selected]
    return taking_in(options, new) if new else options


_AS_BEFORE = (BY_HAND, ("new",))
"""What runs take that begin without anybody saying which tasks: by a retry, and of what came into the file."""


def chosen_by(facts: Sequence[Fact]) -> Sequence[Fact]:
    """Those by which the tasks of the newest run were chosen: what came before its selection was said."""
    found, said = len(facts), None
    for at, fact in enumerate(facts):
        if isinstance(fact, (RunStarted, OptionsChanged)):
            selection = which(replace(decode(fact.options), also=()))
            if selection != said or (isinstance(fact, RunStarted) and fact.takes not in _AS_BEFORE):
                found, said = at, selection
    return facts[:found]


def standing_after(facts: Sequence[Fact], gpus: Sequence[GpuInfo]) -> Look:
    """How all tasks of a file stand after *facts*, whatever runs have left out: what `state:blocked` and the like mean
    where a run's tasks are chosen."""

    def look(settings: DeckSettings, tasks: Sequence[TaskSpec]) -> list[Subject]:
        deck = build(DeckFile("", "", settings, tuple(tasks)), gpus=core_gpus(settings, gpus), cores=host.cores())
        replay(deck, facts)
        if deck.run.number:
            derive(deck)
        index_of = {gpu.uuid: gpu.index for gpu in gpus}
        return [subject(deck, task, index_of) for task in deck.tasks]

    return look


def stand_in_for_left_out(deck: Deck, logs: LogFolder, file: DeckFile) -> None:
    """Tasks that --only leaves out count for those that need them: as done, or as not to be had."""
    left_out = [task for task in deck.tasks if not task.selected and task.feeds and not task.gone]
    if not left_out:
        return
    from ..attempts.outputs import is_done  # seldom needed
    from .other_decks import OtherDecks

    others = OtherDecks(file)
    for task in left_out:
        task.left_out_done = is_done(deck, task, logs, others.at)
        stand_in(deck, task, good=task.left_out_done)
