"""What was set for a run that is over does not bind a file that has been changed since."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from gpudeck.tests.fakes.live_deck import live_deck

WITH = '[deck]\ngpus = "sim:1"\n[vars]\nlr = 0.1\n[[task]]\nname = "a"\ncommand = "echo {lr}; false"\n'
WITHOUT = '[deck]\ngpus = "sim:1"\n[[task]]\nname = "a"\ncommand = "echo new"\n'


def gpudeck(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = (sys.executable, "-m", "gpudeck", *words)
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60, check=False)


def test_a_variable_that_the_file_no_longer_has_is_forgotten_with_its_run(tmp_path: Path) -> None:
    with live_deck(tmp_path, WITH) as deck:
        assert gpudeck(tmp_path, "--headless", "tasks.toml", "lr=0.2").returncode == 1
        deck.write(WITHOUT)
        looked = gpudeck(tmp_path, "ls")
        assert (looked.returncode, "--set" in looked.stderr) == (0, False)
        assert gpudeck(tmp_path, "retry", "a").returncode == 0
        with deck.client() as client:
            deck.until_states(client, a="succeeded")
