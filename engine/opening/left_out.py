"""How tasks count that a selection leaves out."""

from __future__ import annotations

from dataclasses import replace

from ..core.build import stand_in
from ..core.deck import Deck, Task
from ..core.readiness import success_of
from ..core.recorded import Recorded
from ..core.spec import DeckFile
from ..logs.files import LogFolder
from ..logs.outputs import outputs_exist
from ..ports import Doubt


def with_running(file: DeckFile, journal: Recorded) -> DeckFile:
    """What runs belongs to the run, whatever is selected now: a later round must not start beside it."""
    return file if file.selected is None else replace(file, selected=file.selected | journal.lasting.keys())


def stand_in_for_left_out(deck: Deck, logs: LogFolder, file: DeckFile) -> None:
    """Tasks that --only leaves out count for those that need them: as done, or as not to be had."""
    left_out = [task for task in deck.tasks if not task.selected and task.feeds and not task.gone]
    if not left_out:
        return
    from .other_states import OtherStates  # seldom needed

    others = OtherStates(file)
    for task in left_out:
        task.left_out_done = is_done(deck, task, logs, others.doubt)
        stand_in(deck, task, good=task.left_out_done)


def is_done(deck: Deck, task: Task, logs: LogFolder, doubt: Doubt) -> bool:
    """By its success under this name or another, or by outputs that nothing else can have left."""
    outputs, wall = task.spec.outputs, success_of(deck, task)
    if not outputs:
        return wall is not None
    if wall is None and (task.name in deck.known or logs.attempted(task.name)):
        return False
    return outputs_exist(outputs) and not doubt(task.spec, wall)
