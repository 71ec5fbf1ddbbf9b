"""A plan is carried out, and after each act everything is looked at."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from gpudeck.engine.client.connection import Gone
from tests.e2e.decks import until

from . import acts, books, seen
from .deck import UsedDeck, used_deck
from .lots import CARDS
from .plan import Act, said
from .told import told

PATIENCE_S = 30.0
"""In which everything comes to rest."""


PRINTED_EVERY = 6
"""Acts after which the commands themselves are asked."""


class FoundError(AssertionError):
    """Something is not as it should be."""

    def __init__(self, done: Sequence[Act], why: str) -> None:
        super().__init__(f"after GPUDECK_RANDOM_ACTS='{said(done)}'\n{why}")
        self.done = done
        self.why = why


def carry_out(folder: Path, plan: Sequence[Act], tell: Callable[[str], None] = lambda _: None) -> None:
    """Raises FoundError."""
    done: list[Act] = []
    with used_deck(folder) as deck:
        try:
            for number, act in enumerate(plan):
                done.append(act)
                tell(" ".join(act))
                hasty = act[0] == "&"
                acts.do(deck, act[hasty:])
                if not hasty and (folder / "tasks.toml").exists():
                    _look(deck, by_commands=number % PRINTED_EVERY == 0)
            _end(deck)
        except Exception as error:
            raise FoundError(done, f"{type(error).__name__}: {error}") from error


def _look(deck: UsedDeck, *, by_commands: bool) -> None:
    _holds_in_the_end(lambda: books.never(deck), patience_s=0.0)
    if books.started(deck):
        _holds_in_the_end(lambda: books.at_rest(deck, by_commands=by_commands) if books.started(deck) else [])
        if books.started(deck):  # still: an engine may have ended that alone knew of its file
            books.remember(deck)
    if not seen.has_ended(deck):
        seen.answers(deck)
        _holds_in_the_end(lambda: [] if books.has_lost_its_copy(deck) else seen.disagreements(deck))
    _holds_in_the_end(lambda: books.never(deck), patience_s=0.0)


def _end(deck: UsedDeck) -> None:
    """Everything is mended, all tasks may go on: the deck comes to its end, and nothing is left."""
    deck.empty()
    for card in range(CARDS):
        deck.box.find(card)
        deck.leave(card)
    deck.file.untangle()
    for act in ("interrupt", "mend", "deck gpus=all", "deck keep_free=0", "deck halt=never"):
        acts.do(deck, tuple(act.split()))
    for gate in deck.task_gates.values():
        gate.let(50)
    until(lambda: deck.run_command("start").code == 0)
    enable = [f"gpus enable {card}" for card in range(CARDS)]  # each: a deck may have been given some of them
    for words in ("unpause", "apply -y", *enable, "release t* -y"):
        acts.do(deck, ("command", *words.split()))
    if unproven := [name for name, row in told(deck).rows.items() if books.is_unproven(row)]:
        acts.do(deck, ("command", "cancel", *unproven, "-y"))
    _holds_in_the_end(lambda: books.never(deck) + books.at_rest(deck, by_commands=True) + books.unsettled(deck))
    deck.run_command("start", "--queue")
    for card in range(CARDS):  # each: its engine may not know one that was lost when it started
        deck.run_command("gpus", "take", str(card), "--queue")  # what others have just left rests for a minute
    _holds_in_the_end(lambda: books.wrong_runs(deck))
    for more in ((), ("--queue",)):
        assert deck.run_command("stop", "--tasks", *more).code in (0, 2)
    deck.close_followers()
    deck.close_screen()
    _holds_in_the_end(lambda: books.never(deck) + books.over(deck))


def _holds_in_the_end(wrong: Callable[[], list[str]], patience_s: float = PATIENCE_S) -> None:
    deadline = time.monotonic() + patience_s
    never = threading.Event()
    while found := _wrong(wrong):
        assert time.monotonic() < deadline, "\n".join(found)
        never.wait(0.05)


def _wrong(wrong: Callable[[], list[str]]) -> list[str]:
    try:
        return wrong()
    except Gone as gone:
        return [str(gone)]
