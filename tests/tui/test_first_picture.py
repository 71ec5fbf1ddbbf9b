"""What stands between the start of the screen and its first picture."""

from __future__ import annotations

import gc
import json
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from tests.fakes.snapshot_rig import KnowingClient
from tests.inside.tui import THEMES, Config, GpudeckApp, pages

DEADLINE_S = 30.0
LATE = (
    "ctypes", "hashlib", "psutil", "sqlite3", "tomllib",
    "gpudeck.engine.core.spec", "gpudeck.engine.client.detach", "gpudeck.engine.engine", "gpudeck.cli.dispatch",
    "gpudeck.engine.protocol.messages", "gpudeck.engine.taskfile.load",
    "gpudeck.tui.acting.palette", "gpudeck.tui.screens.errors", "gpudeck.tui.screens.help",
    "gpudeck.tui.screens.timeline", "gpudeck.tui.logs.query", "gpudeck.tui.logs.search", "gpudeck.engine.logs.digest",
)  # fmt: skip
"""Slow to load, and needed by no picture of a deck that has an engine."""
SCRIPT = """
import json, os, sys
from gpudeck.cli.arguments import parse
from gpudeck.tui.open_screen import app_on
from gpudeck.tui.settings import load
from gpudeck.engine.client.place import Place
place = Place.of(parse(["tasks.toml"]))
assert place.attach() is None
app_on(place, config=load({"HOME": "/nowhere", "XDG_CONFIG_HOME": "/nowhere"}))
print(json.dumps(sorted(sys.modules)))
"""


def app_in(theme: str) -> GpudeckApp:
    return GpudeckApp(KnowingClient({}), Config(theme=theme))


@pytest.mark.parametrize("name", [*(theme.name for theme in THEMES), "nord"])
def test_the_chosen_theme_is_that_of_the_first_picture(name: str) -> None:
    assert app_in(name).theme == name


def test_a_light_theme_is_told_from_a_dark_one_from_the_start() -> None:
    app = app_in("gpudeck-light")

    assert app.has_class("-light-mode", "-theme-gpudeck-light")
    assert not app.has_class("-dark-mode")


def test_without_the_theme_that_is_asked_for_there_is_another() -> None:
    app = app_in("no-such-theme")

    assert app.theme in app.available_themes


@pytest.mark.terminal
def test_what_is_slow_to_load_and_not_needed_is_loaded_later(tmp_path: Path) -> None:
    (tmp_path / "tasks.toml").write_text('[[task]]\nname = "a"\ncommand = "true"\n')

    told = subprocess.run([sys.executable, "-c", SCRIPT], cwd=tmp_path, capture_output=True, text=True, check=True)

    assert set(json.loads(told.stdout)) & set(LATE) == set()


def test_once_the_screen_stands_all_is_loaded_and_garbage_is_collected() -> None:
    gc.disable()
    try:
        pages.load_all()
        deadline = time.monotonic() + DEADLINE_S
        while not gc.isenabled() and time.monotonic() < deadline:
            threading.Event().wait(0.01)
        assert gc.isenabled()
        assert {f"gpudeck.tui.screens.{name}" for name in pages.MODULES} <= set(sys.modules)
        assert "gpudeck.tui.widgets.log.hunt" in sys.modules
    finally:
        gc.enable()
        gc.unfreeze()
