"""An example deck, copied to a folder of its own and run there by the gpudeck command."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from tests.e2e.decks import Deck, Ran, deck_in

EXAMPLES = Path(__file__).parents[2] / "examples"
PATIENCE_S = 600.0
"""Each task imports torch, which takes long where much else runs."""


@contextlib.contextmanager
def example(name: str, folder: Path) -> Iterator[Deck]:
    left = shutil.ignore_patterns("__pycache__", "logs", "output", ".*")
    shutil.copytree(EXAMPLES / name, folder / name, ignore=left)
    with deck_in(folder / name) as deck:
        yield deck


def run(deck: Deck, *options: str, file: str = "tasks.toml") -> Ran:
    """The deck to its end, however long it takes."""
    words = [*deck.prefix, "--headless", file, "--json", *options]
    done = subprocess.run(
        words, cwd=deck.folder, env=deck.env, capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    return Ran(done.returncode, done.stdout, done.stderr)
