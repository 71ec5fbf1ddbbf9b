"""The real screen on a real deck: its engine is started as a user's would be, keys are pressed by Textual's pilot."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

from textual.pilot import Pilot

from gpudeck.engine.client.place import Place
from gpudeck.engine.command import Command
from gpudeck.engine.protocol.wire import TaskRow
from gpudeck.tui.app import GpudeckApp
from gpudeck.tui.open_screen import app_on
from gpudeck.tui.settings import Config
from tests.fakes.live_deck import DEADLINE_S, LiveDeck, live_deck

SIZES = ((80, 24), (120, 40), (200, 60))
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.005, 0.04
"""Between two looks: the screen's whole text is not to be had for nothing."""


class ScreenRig:
    """The app, what drives it, and the deck below."""

    def __init__(self, app: GpudeckApp, pilot: Pilot[Any], deck: LiveDeck) -> None:
        self.app = app
        self.pilot = pilot
        self.deck = deck

    async def until(self, holds: Callable[[], object], what: str = "") -> None:
        """Wait until something is so."""
        deadline = time.monotonic() + DEADLINE_S
        pause_s = _FIRST_PAUSE_S
        while not holds():
            assert time.monotonic() < deadline, f"waited in vain: {what or holds}\n{self.text()}"
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)

    async def press(self, *keys: str) -> None:
        """Once all that has come is drawn: nobody acts on what he does not see yet."""
        await self.until(lambda: self.app._drawing is None, "it is drawn")
        await self.pilot.press(*keys)

    def row(self, name: str) -> TaskRow:
        row = self.app.deck.row(name)
        assert row is not None, name
        return row

    async def until_state(self, name: str, *states: str) -> TaskRow:
        def there() -> bool:
            row = self.app.deck.row(name)
            return row is not None and row.state in states

        await self.until(there, f"{name} is {' or '.join(states)}")
        return self.row(name)

    async def until_seen(self, text: str) -> None:
        """Wait until it stands on the screen."""
        await self.until(lambda: text in self.text(), f"{text!r} is on the screen")

    def text(self) -> str:
        """What stands on the screen, line by line."""
        width, height = self.app.size
        lines = self.app.screen._compositor.render_strips()  # no public way to the cells
        return "\n".join(strip.text[:width].rstrip() for strip in lines[:height])


@asynccontextmanager
async def screen_on(
    deck: LiveDeck, *, size: tuple[int, int] = (120, 40), config: Config | None = None
) -> AsyncGenerator[ScreenRig]:
    """The screen over *deck*, whole."""
    place = Place.of(Command("deck", file=deck.path))
    app = app_on(place, config=config or Config())
    async with app.run_test(size=size, notifications=True) as pilot:
        rig = ScreenRig(app, pilot, deck)
        await rig.until(lambda: app.deck.whole or app.deck.link.kind == "failed", "the picture is whole")
        assert app.deck.whole, app.deck.link
        await pilot.pause()
        yield rig


OnDeck = Callable[..., AbstractAsyncContextManager[ScreenRig]]
"""The screen over a deck; takes the options of `screen_on`."""


def over(folder: Path, text: str, states: Mapping[str, str], *, script: str = "") -> OnDeck:
    """The screen over the deck *text*, once its tasks have come to these states. *script*: what is in run.sh."""

    @asynccontextmanager
    async def on(**options: Any) -> AsyncGenerator[ScreenRig]:
        with live_deck(folder, text) as deck:
            if script:
                (folder / "run.sh").write_text(script)
            async with screen_on(deck, **options) as rig:
                for name, state in states.items():
                    await rig.until_state(name, state)
                yield rig

    return on
