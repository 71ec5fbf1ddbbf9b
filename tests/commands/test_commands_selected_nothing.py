"""That no task is in a state now is an answer; that none has a name is a mistake."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from gpudeck.tests.fakes.live_deck import live_deck

DECK = '[deck]\ngpus = "sim:1"\n[[task]]\nname = "good"\ncommand = "true"\n'


def gpudeck(folder: Path, *words: str) -> tuple[int, str]:
    command = (sys.executable, "-m", "gpudeck", *words)
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60, check=False)
    return done.returncode, done.stdout


@pytest.mark.parametrize("alive", [True, False], ids=["engine", "no engine"])
def test_no_task_in_a_state_is_nothing_to_do(tmp_path: Path, alive: bool) -> None:
    with live_deck(tmp_path, DECK) as deck:
        engine = deck.start()
        with deck.client() as client:
            deck.until_states(client, good="succeeded")
            if not alive:
                client.request("stop")
        if not alive:
            engine.wait(20)
        code, out = gpudeck(tmp_path, "ls", "state:failed", "--json")
        assert (code, json.loads(out)) == (0, [])
        assert gpudeck(tmp_path, "retry", "-y", "state:failed") == (0, "retry: no task is state:failed now\n")
        assert gpudeck(tmp_path, "logs", "state:failed")[0] == 2
        assert gpudeck(tmp_path, "ls", "god")[0] == 2
