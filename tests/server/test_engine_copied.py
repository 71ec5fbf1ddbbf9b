"""A copy of a deck's folder is a deck of its own."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from gpudeck.engine.protocol.states import ACTIVE
from tests.fakes.live_deck import live_deck
from tests.fakes.local_rig import lives

DECK = """
[deck]
gpus = "sim:1"
[[task]]
name = "long"
command = "echo up >> up; while [ ! -e go ]; do sleep 0.02; done"
"""

MAKES = """
[deck]
gpus = "sim:1"
[[task]]
name = "long"
command = "touch up; while [ ! -e go ]; do sleep 0.02; done; echo whole > out"
outputs = ["out"]
"""


@pytest.mark.parametrize("alive", [True, False], ids=["its engine lives", "its engine was killed"])
def test_a_copy_leaves_the_originals_tasks_alone_and_runs_its_own(tmp_path: Path, alive: bool) -> None:
    (tmp_path / "a").mkdir()
    with live_deck(tmp_path / "a", DECK) as original:
        engine = original.start()
        with original.client() as client:
            pid = original.until_states(client, long="running")["long"].pid
        if not alive:
            engine.kill()
            engine.wait()
        shutil.copytree(tmp_path / "a", tmp_path / "b")
        with live_deck(tmp_path / "b", DECK) as copy:
            copy.start()
            with copy.client() as client:
                row = copy.until_rows(client, lambda rows: rows["long"].state == "running")["long"]
                assert row.pid != pid
                client.request("stop", tasks=True, now=True)
            copy.engines[0].wait(20)
            assert "is a copy of" in copy.text("logs/deck.log")
        assert lives(pid)
        if not alive:
            original.start()
        (tmp_path / "a" / "go").touch()
        with original.client() as client:
            row = original.until_states(client, long="succeeded")["long"]
        assert row.attempt == 1


@pytest.mark.parametrize("ends", ["before the next engine", "under the next engine"])
@pytest.mark.parametrize("engine", ["alive", "alive and not looking", "killed"])
def test_a_folder_that_was_moved_keeps_what_runs_and_how_it_ends(tmp_path: Path, engine: str, ends: str) -> None:
    (tmp_path / "a").mkdir()
    with live_deck(tmp_path / "a", MAKES) as before:
        if engine == "alive and not looking":
            before.tune("engine.state_watch", _LOOK_EVERY_S=60.0)
        first = before.start()
        with before.client() as client:
            pid = before.until_states(client, long="running")["long"].pid
        before.until((tmp_path / "a" / "up").exists, "the command has begun")
        if engine == "killed":
            first.kill()
            first.wait()
        os.rename(tmp_path / "a", tmp_path / "b")
        if ends == "before the next engine" or engine == "alive and not looking":
            (tmp_path / "b" / "go").touch()
            before.until(lambda: not lives(pid), "the task has ended")
        first.wait(20)
        assert not (tmp_path / "a").exists()
        with live_deck(tmp_path / "b", MAKES) as after:
            after.start()
            with after.client() as client:
                (tmp_path / "b" / "go").touch()
                row = after.until_rows(client, lambda rows: rows["long"].state not in ACTIVE)["long"]
            assert (row.state, row.attempt, row.exit_code) == ("succeeded", 1, 0)
            if engine != "killed":
                assert f"was moved to {tmp_path}/b/" in after.text("logs/deck.log")
        (tmp_path / "a").mkdir()
        before.write(DECK)
