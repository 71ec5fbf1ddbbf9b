"""The screen of one deck: follows its engine, opens its screens, gives them keys. It renders nothing itself."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

from textual import events, work
from textual.errors import NoWidget
from textual.filter import LineFilter, Monochrome
from textual.timer import Timer, TimerCallback
from textual.widget import Widget
from textual.widgets import Input

from ..engine.protocol.wire import Ready
from ..engine.text import plural
from . import pages
from .acting.actions import BY_ID, use_keys
from .deck_app import Client, Clocks, DeckApp
from .messages import Acted, FilterTable, OpenLogs, OpenTask
from .model import Link
from .screens.dashboard import Dashboard
from .screens.deck_screen import DeckScreen
from .settings import Config, WithoutColours, begin_with
from .terminal import PlainGlyphs, Terminal, editor_of, run_outside

if TYPE_CHECKING:
    from textual.command import Provider

_TAKEN_S = 1.0
"""A widget that is removed meanwhile takes nothing any more."""
_REST_S = 0.5
"""After this the other screens are loaded."""
_LEAST_S = 0.005
"""The shortest timer."""
_PANES: Mapping[str, str] = {"gpus": "on a GPU", "log": "in a log"}
"""Where on the first screen a key does something, by `Action.where`."""
STYLES = ("app", "table", "gpu_panes", "log_view", "pages", "detail")


def _commands() -> type[Provider]:
    from .screens.palette import DeckCommands  # loaded when the palette is opened

    return DeckCommands


async def _all_taken(widget: Widget) -> None:
    """Once it has taken all messages that it has got until now, or is gone."""
    taken = asyncio.Event()
    if widget.call_later(taken.set):
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(taken.wait(), _TAKEN_S)


class GpudeckApp(DeckApp):
    """Ends with the line that is said on the shell."""

    TITLE = "gpudeck"
    COMMANDS: ClassVar = {_commands}
    COMMAND_PALETTE_BINDING = "ctrl+p"
    CSS_PATH: ClassVar = [f"styles/{name}.tcss" for name in STYLES]

    def __init__(
        self,
        client: Client,
        config: Config,
        clocks: Clocks = Clocks(),  # noqa: B008 -- frozen
        completed: Callable[[str], str] = str,
        terminal: Terminal | None = None,
    ) -> None:
        """*completed*: a sentence, with the commands that it names as they are to be typed for this deck. *terminal*:
        None in a browser."""
        super().__init__(client, config, clocks, completed)
        self._terminal = terminal
        self._drawn_at = 0.0
        self._undrawn: set[int] | None = set()
        """Indexes of rows that differ from what is drawn; None: all may."""
        self._drawing: asyncio.TimerHandle | None = None
        self._skipped: events.Key | None = None
        """What it is bound to first had nothing to do: ctrl+c where nothing has been marked."""
        self._early: list[events.Key] = []
        """Typed before the tasks that it is about have come; taken once they have."""
        self._clicked: Widget | None = None
        """What may have the click still before it."""
        self._own_filters = [
            WithoutColours(enabled=self.no_color),
            PlainGlyphs(enabled=terminal is not None and not terminal.takes_glyphs),
        ]
        use_keys(config.keys)
        begin_with(self, config.theme)

    def get_line_filters(self) -> Sequence[LineFilter]:
        """With what this terminal cannot show. Textual's own way to leave colours out would send greys."""
        textuals = (each for each in super().get_line_filters() if not isinstance(each, Monochrome))
        return [*textuals, *(each for each in self._own_filters if each.enabled)]

    def set_timer(
        self, delay: float, callback: TimerCallback | None = None, *, name: str | None = None, pause: bool = False
    ) -> Timer:
        """As Textual's, which never rings where this process lost its processor for *delay* seconds while the timer
        began: it skips the one tick that it has. Textual shows a resize after 8 ms, none after one that was lost."""

        rung = False

        def ring() -> None:
            nonlocal rung
            timer.stop()
            if callback is not None and not rung:  # what is stopped ticks once more where it needs not wait for that
                self.call_next(callback)
            rung = True

        timer = self.set_interval(max(delay, _LEAST_S), ring, name=name, pause=pause)
        return timer

    # -- from the engine to the screens -------------------------------------------------------------------------------

    def on_mount(self) -> None:
        if self._terminal is not None:
            self._terminal.when_told_to_end(self._told_to_end)
        self._configure()
        self._follow()
        self.tasks = self._dashboard = Dashboard()
        self.push_screen(self._dashboard)
        self.set_timer(_REST_S, pages.load_all)

    def _configure(self) -> None:
        if self.config.theme not in self.available_themes:
            self.tell(f"theme {self.config.theme!r}: there are {', '.join(sorted(self.available_themes))}", error=True)
        self.set_keymap(dict(self.config.keys))
        if self.config.problems:
            self.tell("\n".join(self.config.problems[:3]), error=True)

    @work
    async def _follow(self) -> None:
        async for news in self.client.news():
            if not self.is_running:
                return
            if isinstance(news, str):
                self.tell(news)
            elif isinstance(news, Link):
                self.deck.link = news
                self._differ(frozenset())
            else:
                self._differ(self.deck.fold(news), at_once=isinstance(news, Ready))

    def _differ(self, rows: frozenset[int] | None, *, at_once: bool = False) -> None:
        """Draw these, soon. A picture that is whole now is drawn before anybody looks at its rows, or a key that has
        waited for it moves through them."""
        self._undrawn = None if rows is None or self._undrawn is None else self._undrawn | rows
        if at_once:
            self._draw()
        elif self._drawing is None:
            wait_s = self._drawn_at + self.config.refresh_s - time.monotonic()
            self._drawing = asyncio.get_running_loop().call_later(max(0.0, wait_s), self._draw)

    def _draw(self) -> None:
        if self._drawing is not None:
            self._drawing.cancel()
        changed = None if self._undrawn is None else frozenset(self._undrawn)
        self._drawing, self._undrawn, self._drawn_at = None, set(), time.monotonic()
        for screen in self.screen_stack:
            if isinstance(screen, DeckScreen):
                screen.take_in(changed)
        if self._early and not self._loading:
            early, self._early = self._early, []
            for key in early:
                self.post_message(key)

    # -- from the user to the engine ----------------------------------------------------------------------------------

    async def on_event(self, event: events.Event) -> None:
        """What a key is bound to is done before the next key is looked at: of "/r" typed ahead, r is text; a click is
        done before the key behind it. Where text is typed, Textual keeps keys in order itself."""
        if isinstance(event, events.MouseUp) and not event.is_forwarded:
            with contextlib.suppress(NoWidget):
                self._clicked = self.get_widget_at(event.x, event.y)[0]
        if not isinstance(event, events.Key) or isinstance(self.focused, Input) or event is self._skipped:
            await super().on_event(event)
        elif self._loading and self.screen is self._dashboard and not self._is_at_once(event.key):
            self._early.append(event)
        elif not event.is_forwarded:  # what comes back was meant for a screen that may have gone since
            await self._press(event)

    def _is_at_once(self, key: str) -> bool:
        """What it does is about no task: leave, help, what Textual does itself."""
        found = self.active_bindings.get(key)
        bound = None if found is None else found.binding
        return bound is None or bound.id not in BY_ID or bound.id in ("leave", "help")

    @property
    def _loading(self) -> bool:
        """Tasks have still to come, and come, or may."""
        return not self.deck.whole and self.deck.link.kind in ("connecting", "live")

    async def _press(self, key: events.Key) -> None:
        self.app_focus = True
        if self._clicked is not None:
            clicked, self._clicked = self._clicked, None
            await _all_taken(clicked)
        if not self.screen.is_mounted:
            await _all_taken(self.screen)
        bound = self.active_bindings.get(key.key)
        if bound is None:
            self._miss(key.key)
        elif await self.run_action(bound.binding.action, bound.node):
            return
        else:
            self._skipped = key
        await super().on_event(key)

    def _miss(self, key: str) -> None:
        """A key that does something elsewhere must not seem to be broken."""
        action = next((each for each in BY_ID.values() if key in each.keys), None)
        if action is None or not isinstance(self.screen, DeckScreen):
            return
        if isinstance(self.screen, Dashboard):
            if pane := _PANES.get(action.where):
                self.tell(f"{action.label}: only {pane}; {BY_ID['next_pane'].shown_key} goes to the next pane")
        else:
            back = f"; {BY_ID['back'].shown_key} goes back" if action.where in ("tasks", "panes", "gpus") else ""
            self.tell(f"{action.label}: not on this page{back}")

    def on_acted(self, message: Acted) -> None:
        self.act(message.action, message.names)

    # -- actions of the deck ------------------------------------------------------------------------------------------

    def do_leave(self) -> None:
        """Nothing is stopped."""
        self.exit(self._parting())

    async def action_quit(self) -> None:
        """ctrl+q where a dialog has the keys."""
        self.do_leave()

    def action_help_quit(self) -> None:
        """ctrl+c stops nothing here: whoever means a program in a log or a task would hit this screen."""
        self.tell(f"{BY_ID['leave'].shown_key} leaves, and stops nothing; {BY_ID['cancel'].shown_key} cancels a task")

    def do_suspend(self) -> None:
        """For the whole job, as the terminal itself would do it."""
        if self._terminal is None:
            self.tell("there is no shell to go back to")
            return
        with self.suspend():
            self._terminal.stop_job()

    def _told_to_end(self, number: int) -> None:
        self.exit(self._parting(), return_code=128 + number)

    def do_edit(self) -> None:
        """What it changes in the file is told by the header, and applied by `a`."""
        if self.deck.head is not None and not self.refuses():
            problem = run_outside(self, [*editor_of(os.environ), self.deck.head.file])
            if problem:
                self.tell(problem, error=True)

    def do_help(self) -> None:
        here = self.screen.place if isinstance(self.screen, DeckScreen) else "tasks"
        self.push_screen(pages.page("help", here, self.config.problems))

    def do_palette(self) -> None:
        if isinstance(self.screen, DeckScreen):  # it finds what can be done there
            self.push_screen(pages.page("palette"))

    def action_command_palette(self) -> None:
        self.do_palette()

    def do_reconnect(self) -> None:
        self.client.reconnect()

    def _parting(self) -> str:
        link, head = self.deck.link, self.deck.head
        if not link.live or head is None:
            return ""
        running = head.counts.running
        if head.ended and not running:
            return f"the run has ended: engine {link.pid} ends by itself"
        what = f"{plural(running, 'task')} running" if running else "nothing running"
        return f"engine {link.pid} goes on, {what}: `gpudeck` comes back, `gpudeck stop` ends it"

    def do_errors(self) -> None:
        self._open_page("errors")

    def do_timeline(self) -> None:
        self._open_page("timeline")

    def do_graph(self) -> None:
        self._open_page("graph")

    def _open_page(self, name: str) -> None:
        """One page at a time lies over the deck."""
        if isinstance(self.screen, DeckScreen) and self.screen.is_page:
            self.switch_screen(pages.page(name))  # pyright: ignore[reportUnknownMemberType]
        else:
            self.push_screen(pages.page(name))

    # -- screens ------------------------------------------------------------------------------------------------------

    def on_open_task(self, message: OpenTask) -> None:
        self.push_screen(pages.page("detail", message.name))

    def on_open_logs(self, message: OpenLogs) -> None:
        self.push_screen(pages.page("logs", message.names, message.attempt, first_error=message.first_error))

    def on_filter_table(self, message: FilterTable) -> None:
        while not isinstance(self.screen, Dashboard):
            self.pop_screen()
        self._dashboard.filter(message.text)
