"""A broken edit harms nothing, and whoever looks is told of it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from gpudeck.tests.fakes.live_deck import live_deck

DECK = '[deck]\ngpus = "sim:1"\n[[task]]\nname = "long"\ncommand = "sleep 60"\n'


def status(folder: Path) -> str:
    command = (sys.executable, "-m", "gpudeck", "status")
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60, check=False).stdout


def test_status_tells_of_a_broken_edit_until_it_is_mended(tmp_path: Path) -> None:
    with live_deck(tmp_path, DECK) as deck:
        deck.start()
        with deck.client() as client:
            deck.until_states(client, long="running")
            deck.write(DECK + "gpu = 1\n")
            deck.until_rows(client, lambda _: client.picture and client.picture.head.file_problem)
            said = " ".join(status(tmp_path).split())
            assert "cannot be used, the deck goes on as it was" in said
            assert "did you mean" in said
            deck.write(DECK + "gpu = 1\ngpus = -1\n")
            deck.until_rows(
                client, lambda _: client.picture and client.picture.head.file_problem.startswith("2 problems")
            )
            assert "the first: tasks.toml:6: task" in " ".join(status(tmp_path).split())
            deck.write(DECK)
            deck.until_rows(client, lambda _: client.picture and not client.picture.head.file_problem)
            assert "cannot be used" not in status(tmp_path)
