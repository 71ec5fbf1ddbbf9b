"""How tasks count that a selection leaves out."""

from __future__ import annotations

from dataclasses import replace

from ..core.build import stand_in
from ..core.deck import Deck
from ..core.recorded import Recorded
from ..core.spec import DeckFile
from ..logs.files import LogFolder


def with_running(file: DeckFile, journal: Recorded) -> DeckFile:
    """What runs belongs to the run, whatever is selected now: a later round must not start beside it."""
    return file if file.selected is None else replace(file, selected=file.selected | journal.lasting.keys())


def stand_in_for_left_out(deck: Deck, logs: LogFolder, file: DeckFile) -> None:
    """Tasks that --only leaves out count for those that need them: as done, or as not to be had."""
    left_out = [task for task in deck.tasks if not task.selected and task.feeds and not task.gone]
    if not left_out:
        return
    from ..attempt.outputs import is_done  # seldom needed
    from .other_states import OtherStates

    others = OtherStates(file)
    for task in left_out:
        task.left_out_done = is_done(deck, task, logs, others.at)
        stand_in(deck, task, good=task.left_out_done)
