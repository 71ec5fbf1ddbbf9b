"""How tasks count that a selection leaves out."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from ..core.build import stand_in
from ..core.deck import Deck
from ..core.recorded import Recorded
from ..core.spec import DeckFile
from ..logs.files import LogFolder
from ..taskfile.options import RunOptions
from .run_options import taking_in


def with_running(file: DeckFile, journal: Recorded) -> DeckFile:
    """What runs belongs to the run, whatever is selected now: a later round must not start beside it."""
    return file if file.selected is None else replace(file, selected=file.selected | journal.lasting.keys())


def with_newcomers(options: RunOptions, file: DeckFile, known: Collection[str]) -> RunOptions:
    """A selection ends with its run: it does not leave out what has come into the file since. *known*: the tasks that
    there were; none where nobody knows."""
    if not known or file.selected is None:
        return options
    new = [spec.name for spec in file.tasks if spec.name not in known and spec.name not in file.selected]
    return taking_in(options, new) if new else options


def stand_in_for_left_out(deck: Deck, logs: LogFolder, file: DeckFile) -> None:
    """Tasks that --only leaves out count for those that need them: as done, or as not to be had."""
    left_out = [task for task in deck.tasks if not task.selected and task.feeds and not task.gone]
    if not left_out:
        return
    from ..attempts.outputs import is_done  # seldom needed
    from .other_states import OtherStates

    others = OtherStates(file)
    for task in left_out:
        task.left_out_done = is_done(deck, task, logs, others.at)
        stand_in(deck, task, good=task.left_out_done)
