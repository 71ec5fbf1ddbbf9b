"""What must hold of the screen: it answers a key, and its table says what `gpudeck ls` says."""

from __future__ import annotations

import contextlib
import re

from gpudeck.tui.drawing.view import LOOKS
from tests.e2e.decks import until
from tests.fakes.tmux_screen import TmuxScreen

from .deck import UsedDeck
from .taskfile import NAMES
from .told import told

_STATES = {
    glyph: {state for state, one in LOOKS.items() if one.glyph == glyph}
    for glyph in {look.glyph for look in LOOKS.values()}
}
_GLYPH = "".join(map(re.escape, _STATES))
_ROW = re.compile(rf"^[▌◆ ].?\s?([{_GLYPH}]) (?:[a-z]+ +)?.?({'|'.join(NAMES)})\b", re.MULTILINE)


_PRESSES = 3
"""A key that comes while the screen has lent the terminal to an editor or a pager is theirs; one that comes as a
question or a page opens, which the engine was asked about before, is for that."""
_ANSWER_S = 10.0


def has_ended(deck: UsedDeck) -> bool:
    """Whether there is no screen, or it has left the terminal to the shell."""
    if deck.screen is None:
        return True
    if deck.screen.screens():
        return False
    text = deck.screen.text()
    assert "Traceback" not in text, text
    deck.close_screen()
    return True


def answers(deck: UsedDeck) -> None:
    """Back to the table, then help is opened and closed."""
    screen = deck.screen
    assert screen is not None
    for _ in range(_PRESSES):
        _back(screen)
        screen.press("?")
        with contextlib.suppress(AssertionError):
            until(lambda: re.search("To the next task|To the GPU on the left", screen.text()), _ANSWER_S)
            break
    else:
        raise AssertionError(f"no help, after {_PRESSES} times ?\n{screen.text()}")
    _back(screen)


def _back(screen: TmuxScreen) -> None:
    """To the table. A page that closes takes what else was typed with it."""
    for _ in range(_PRESSES):
        screen.press(*["Escape"] * 8)
        with contextlib.suppress(AssertionError):
            until(lambda: _at_table(screen.text()), _ANSWER_S)
            return
    screen.until(_at_table, "the table, after escape")


def _at_table(text: str) -> bool:
    return "╭" not in text and "q leave" in text and bool(re.search(r"^ +(state )?.*\btask\b", text, re.MULTILINE))


def disagreements(deck: UsedDeck) -> list[str]:
    """Rows of the table that are not as the commands say."""
    assert deck.screen is not None
    said = told(deck)
    if not said.status["engine"]:
        return []
    text = deck.screen.text()
    found = {match[2]: _STATES[match[1]] for match in _ROW.finditer(text)}
    is_now = {name: row["state"] for name, row in said.rows.items()}
    wrong = [
        f"the screen shows {name} as {' or '.join(states)}, ls says {is_now.get(name)}"
        for name, states in found.items()
        if is_now.get(name) not in states
    ]
    if not found and said.rows:
        wrong.append(f"the screen shows no task\n{text}")
    if deck.size[1] >= 40 and (missing := said.rows.keys() - found.keys()):
        wrong.append(f"the screen does not show {sorted(missing)}\n{text}")
    return wrong
