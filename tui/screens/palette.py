"""The command palette: every action by its name, and the tasks."""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import partial
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.command import CommandList, CommandPalette, DiscoveryHit, Hit, Hits, Provider

from ..acting.actions import BY_ID, Action, on
from ..messages import OpenTask
from ..settings import RESERVED
from .deck_screen import DeckScreen

_TASKS = 50
"""So many tasks are offered at most."""
_HABITS = {
    "leave": "quit exit detach close", "stop": "shutdown end", "pause": "unpause resume", "apply": "reload update",
    "retry": "restart rerun again", "cancel": "terminate delete remove", "log": "logs tail output stdout",
    "sort": "order",
}  # fmt: skip
"""Words that other tools have for these actions."""
_MEANT = 1000.0
"""Above any likeness."""
_KEPT = "Until you leave; `theme` in config.toml keeps it"


class DeckCommands(Provider):
    """Searches labels and tips of the table of actions, and names of tasks."""

    @property
    def _deck_screen(self) -> DeckScreen | None:
        return self.screen if isinstance(self.screen, DeckScreen) else None

    async def discover(self) -> AsyncIterator[DiscoveryHit]:
        """All actions, when nothing has been typed."""
        if screen := self._deck_screen:
            for action in _offered():
                yield DiscoveryHit(_title(action), partial(screen.act, action.id), help=action.tip)

    async def search(self, query: str) -> Hits:
        """What fits the words typed."""
        screen = self._deck_screen
        if screen is None:
            return
        matcher, word = self.matcher(query), query.strip().lower()
        for action in _offered():
            text = _title(action)
            if score := _score(action, word, matcher.match(text)):
                yield Hit(score, matcher.highlight(text), partial(screen.act, action.id), help=action.tip)
        themes = [theme for theme in sorted(self.app.available_themes) if f"theme {theme}".startswith(word)]
        themes = themes or [theme for theme in sorted(self.app.available_themes) if word in theme]
        for theme in themes if len(word) > 1 else ():
            yield Hit(_MEANT, f"theme {theme}", partial(setattr, self.app, "theme", theme), help=_KEPT)
        found = 0
        for row in screen.deck.rows.values():
            if query.lower() in row.name.lower():
                yield Hit(0.5, f"task {row.name}".replace("[", "\\["), partial(screen.post_message, OpenTask(row.name)))
                found += 1
                if found >= _TASKS:
                    return


def _score(action: Action, word: str, likeness: float) -> float:
    """How well an action fits what was typed; *likeness*: of its name."""
    if any(other.startswith(word) for other in _HABITS.get(action.id, "").split()):
        return _MEANT
    return likeness or float(word in action.tip.lower())


def _offered() -> list[Action]:
    return [action for action in on("deck", "tasks", "panes", "gpus") if action.id != "palette"]


def _title(action: Action) -> str:
    return f"{action.label}  ({BY_ID[action.id].shown_key})"


class Palette(CommandPalette):
    """Leaves the keys of screen, tmux and the terminal alone."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(",".join(sorted(RESERVED)), "nothing", show=False, priority=True),
        Binding("pageup", "page('page_up')", show=False),
        Binding("pagedown", "page('page_down')", show=False),
    ]

    def action_page(self, action: str) -> None:
        """A page up or down, once the list has a place: Textual's own key ends the app before that."""
        commands = self.query_one(CommandList)
        if commands.scrollable_content_region:
            getattr(commands, f"action_{action}")()

    def action_nothing(self) -> None:
        """Such a key means nothing here, also not to the field that is typed in."""
