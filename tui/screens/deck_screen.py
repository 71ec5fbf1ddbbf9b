"""What all screens over a deck have in common: they are told of changes and hand actions on."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

from textual import work
from textual.screen import Screen

from ...engine.text import command_text
from ..acting.actions import CHANGES, Action, Where, bindings
from ..deck_app import DeckApp
from ..logs.source import paged
from ..model import DeckModel
from ..terminal import logs_for_pager, pager_of, run_outside, with_content
from ..widgets.key_bar import KeyBar
from ..widgets.log.view import LogView


class DeckScreen(Screen[None]):
    """A screen that shows the deck. Actions that it has no `do_ID` for are the app's."""

    BINDINGS = bindings("deck")
    is_page = False
    task_name = ""
    """The task that the whole screen is about."""

    def __init__(self) -> None:
        super().__init__()
        self._behind = True
        """Something has changed while this screen was not on top."""

    @property
    def gpudeck(self) -> DeckApp:
        return cast("DeckApp", self.app)  # pyright: ignore[reportUnknownMemberType]

    @property
    def deck(self) -> DeckModel:
        return self.gpudeck.deck

    @property
    def place(self) -> Where:
        """Whose keys hold where the user is."""
        return "tasks"

    @property
    def is_current(self) -> bool:
        """Whether it lies on top. To Textual a screen under a dialog is current too, and each change of it draws all
        of the dialog anew; here it stands still until it is on top again."""
        return self.is_active

    @property
    def is_there(self) -> bool:
        """It has all its widgets. A screen that is taken down loses one after the other, while it is attached still."""
        return self.is_mounted and self.is_attached and self.is_running

    def take_in(self, changed: frozenset[int] | None) -> None:
        """Something has come from the engine. A screen that nobody sees looks at it when it is seen again, but at other
        rows at once: what lies under a dialog is drawn with it."""
        if not (self.is_there and (self.is_current or changed is None)):
            self._behind = True
        elif self._behind:
            self._catch_up()
        else:
            self.show_deck(changed)

    def on_screen_resume(self) -> None:
        self._catch_up()
        self._watch_logs(on=True)

    def on_screen_suspend(self) -> None:
        self._watch_logs(on=False)

    def _watch_logs(self, *, on: bool) -> None:
        for view in self.query(LogView):
            view.watch_growth(on)

    def _catch_up(self) -> None:
        self._behind = False
        self.show_deck(None)

    def show_deck(self, changed: frozenset[int] | None) -> None:
        """Draw what differs. *changed*: rows by index; None: anything may have."""

    async def request(self, op: str, **args: Any) -> Any:
        """What the engine answers, where this screen is still there to take it. Raises DeckError."""
        try:
            return await self.gpudeck.request(op, **args)
        finally:
            if not self.is_there:
                raise asyncio.CancelledError

    def show_keys(self, actions: Iterable[Action]) -> None:
        """In the footer, of these actions those that are not refused here."""
        only_looks = self.deck.link.read_only
        self.query_one(KeyBar).show([action for action in actions if not (only_looks and action.id in CHANGES)])

    def targets(self) -> tuple[str, ...]:
        """The tasks that an action is meant for: the marked ones, else the one under the cursor."""
        return ()

    def act(self, action_id: str) -> None:
        """Do an action of the table, from a key, a click or the palette."""
        own = getattr(self, f"do_{action_id}", None)
        if own is not None:
            own()
        else:
            self.gpudeck.act(action_id, self.targets())

    def action_copy_text(self) -> None:
        """What the mouse has marked."""
        super().action_copy_text()  # where nothing is, this goes on to the next that the key is bound to
        self.gpudeck.tell("what is marked was copied")

    def do_copy_command(self) -> None:
        """Of each target, a line each."""
        if names := self.targets():
            self._copy_commands(names)

    @work
    async def _copy_commands(self, names: Sequence[str]) -> None:
        if tasks := await self.gpudeck.answer("show", waits="copy", tasks=list(names)):
            commands = [command_text(task["command"]) for task in tasks]
            self.gpudeck.copy("\n".join(commands), "command" if len(commands) == 1 else f"{len(commands)} commands")

    def do_pager(self) -> None:
        """The newest log of the first target; of one that failed what it wrote to stderr first."""
        if names := self.targets():
            self._page_newest(names[0])

    @work(exclusive=True, group="pager")
    async def _page_newest(self, name: str) -> None:
        if tasks := await self.gpudeck.answer("show", waits="$PAGER", tasks=[name]):
            self.page_log(tasks[0])

    def page_log(self, details: Mapping[str, Any], attempt: int = 0) -> None:
        """An attempt's log in $PAGER. *attempt* 0: the newest."""
        if paths := paged(details, attempt):
            self.page(*paths)
        else:
            self.gpudeck.tell("it has not run: there is no log")

    def page(self, *paths: str) -> None:
        """Files in $PAGER, on the terminal that this screen lets go of meanwhile. Of several those that have something
        in them."""
        with logs_for_pager(with_content(paths)) as logs:
            problem = run_outside(self.gpudeck, [*pager_of(os.environ), *logs])
        if problem:
            self.gpudeck.tell(problem, error=True)

    def on_log_view_pager_wanted(self, message: LogView.PagerWanted) -> None:
        message.stop()
        self.page(message.path)

    def action_act(self, action_id: str) -> None:
        self.act(action_id)
