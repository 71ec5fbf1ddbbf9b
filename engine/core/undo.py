"""Taking back what a user asked for, as far as everything is still as that left it."""

from __future__ import annotations

from . import events as e
from . import inputs as i
from .acts import Act, Held, Moved, Ranked, as_left
from .deck import Task
from .phases import FINAL
from .readiness import reconsider
from .runs import another_run, hold
from .turn import Turn


def undo_deck(turn: Turn, item: i.Verb) -> None:
    """Take back what an act did to the deck as a whole and to GPUs. Idempotent."""
    deck = turn.deck
    act = deck.acts.get(item.act)
    if act is None:
        return
    for uuid, before in act.gpus.items():
        gpu = deck.gpus.get(uuid)
        if gpu is not None and gpu.mark == before.given != before.mark:
            turn.record(e.GpuMarked(uuid, before.mark or "enable"))  # pyright: ignore[reportArgumentType]
    if act.verb == "pause" and act.paused_as and deck.paused == act.paused_as:
        turn.record(e.DeckPaused(False))
        _halt_again(turn, item.act, act)
    elif act.verb == "unpause":
        if act.paused and not deck.paused and not deck.run.ended:
            turn.record(e.DeckPaused(True, act.paused))
        _halt_again(turn, item.act, act)


def undo(turn: Turn, task: Task, item: i.Verb) -> None:
    """Take back what an act did to one task."""
    act = turn.deck.acts.get(item.act)
    before = None if act is None else act.tasks.get(task.name)
    if act is None or before is None or not as_left(task, item.act, before):
        return
    match before:
        case Moved():
            _undo_move(turn, task, item, act, before)
        case Held(held):
            hold(turn, task, item.by, held=held)
        case Ranked(priority):
            if task.priority != priority:
                turn.record(e.PriorityChanged(task.name, priority, item.by))


def _undo_move(turn: Turn, task: Task, item: i.Verb, act: Act, before: Moved) -> None:
    deck = turn.deck
    if not isinstance(before.phase, FINAL) and deck.run.ended:
        another_run(turn)
        if act.paused and not deck.paused:
            turn.record(e.DeckPaused(True, act.paused))
    turn.record(e.TakenBack(task.name, item.act, act.verb, turn.at, item.by))
    reconsider(deck, task)
    hold(turn, task, item.by, held=before.held)
    if act.verb == "retry":
        _halt_again(turn, item.act, act)


def _halt_again(turn: Turn, name: str, act: Act) -> None:
    """What an act let go on after a halt stops again, unless somebody has asked for more since."""
    run = turn.deck.run
    if (
        act.halted
        and not run.halted
        and not any(later.verb in ("retry", "unpause") for later in turn.deck.acts.after(name))
    ):
        turn.record(e.Halted(act.halted, turn.at))
