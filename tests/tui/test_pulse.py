"""When a quiet engine is asked for a sign of life, and when it is said to be silent."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from tests.fakes.screen_rig import over
from tests.inside.tui import PATIENCE_S, QUIET_S, TICK_S, Pulse, connection

DECK = """
[deck]
cpu_slots = 1
[[task]]
name = "long"
command = ["sleep", "1000"]
gpus = 0
"""


def test_a_quiet_engine_is_asked_once() -> None:
    found = Pulse()
    assert found.wait_s == QUIET_S
    assert found.waited(QUIET_S)
    assert not found.waited(found.wait_s)


def test_one_that_does_not_answer_is_silent_and_that_is_counted() -> None:
    found = Pulse()
    found.waited(QUIET_S)
    assert found.silent_s == 0
    found.waited(found.wait_s)
    assert found.silent_s == PATIENCE_S
    assert found.wait_s == TICK_S
    found.waited(found.wait_s)
    assert found.silent_s == PATIENCE_S + TICK_S


def test_any_word_is_a_sign_of_life() -> None:
    found = Pulse()
    found.waited(QUIET_S)
    assert not found.heard()
    found.waited(QUIET_S)
    found.waited(PATIENCE_S)
    assert found.heard()
    assert found.silent_s == 0
    assert found.wait_s == QUIET_S


async def test_a_frozen_engine_is_told_of_and_one_that_goes_on_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("QUIET_S", "PATIENCE_S", "TICK_S"):
        monkeypatch.setattr(connection, name, 0.5)

    async with over(tmp_path, DECK, {"long": "running"})() as rig:
        engine = rig.deck.holder()
        os.kill(engine, signal.SIGSTOP)
        try:
            await rig.until_seen("no answer for 1s")
            assert f"`kill -CONT {engine}` lets it go on" in rig.text()
        finally:
            os.kill(engine, signal.SIGCONT)
        await rig.until_seen("live")
        assert "kill -CONT" not in rig.text()
