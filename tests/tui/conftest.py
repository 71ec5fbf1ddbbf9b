"""Pictures of the screen are compared with those in snapshots/, a file for each."""

from __future__ import annotations

import os
import time
from collections.abc import Generator
from pathlib import Path

import pytest
import textual._wait as pilot_waits
from syrupy.assertion import SnapshotAssertion
from syrupy.extensions.single_file import SingleFileSnapshotExtension, WriteMode
from syrupy.location import PyTestLocation

from gpudeck.tui.acting.actions import use_keys
from tests.fakes.tmux_screen import TmuxDeck, TmuxScreen, kinds_deck

pilot_waits.SLEEP_GRANULARITY, pilot_waits.SLEEP_IDLE = 0.01, 0.0005
"""Twice for each key Textual's pilot looks whether the process has come to rest, and would take 20 ms for each look. A
screen is drawn again within two of these."""


class Pictures(SingleFileSnapshotExtension):
    """snapshots/test_snapshots_dashboard/test_mid_run[80x24].txt"""

    file_extension = "txt"
    _write_mode = WriteMode.TEXT

    @classmethod
    def dirname(cls, *, test_location: PyTestLocation) -> str:
        return os.path.join(os.path.dirname(__file__), "snapshots", test_location.basename)


@pytest.fixture
def pictures(
    snapshot: SnapshotAssertion, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Generator[SnapshotAssertion]:
    """Compare with it; the terminal, the time zone and the folder are the same for everybody meanwhile."""
    for name in ("NO_COLOR", "FORCE_COLOR", "TEXTUAL_DRIVER", "TEXTUAL_COLOR_SYSTEM"):
        monkeypatch.delenv(name, raising=False)
    for name, value in (("TZ", "UTC"), ("TERM", "xterm-256color"), ("COLORTERM", "truecolor")):
        monkeypatch.setenv(name, value)
    time.tzset()
    monkeypatch.chdir(tmp_path)
    yield snapshot.use_extension(Pictures)
    monkeypatch.undo()
    time.tzset()


@pytest.fixture(autouse=True)
def lasting_toasts(monkeypatch: pytest.MonkeyPatch) -> None:
    """A box that is busy takes longer to look at one than it is shown."""
    monkeypatch.setattr("gpudeck.tui.deck_app._SHOWN_S", 3600.0)


@pytest.fixture(autouse=True)
def usual_keys() -> Generator[None]:
    """What an app with other keys leaves behind holds for its own test alone."""
    yield
    use_keys({})


@pytest.fixture
def deck(tmp_path: Path) -> Generator[TmuxDeck]:
    """For a terminal: of its tasks two run, and one fails."""
    with kinds_deck(tmp_path) as deck:
        yield deck


@pytest.fixture
def screen(deck: TmuxDeck) -> TmuxScreen:
    """Open, with everything started that starts."""
    screen = deck.screen()
    screen.until_seen("2 running", "1 failed")
    return screen
