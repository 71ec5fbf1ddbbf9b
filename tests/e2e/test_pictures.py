"""docs/pictures.py can take the pictures that the documentation shows."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.soak

DOCS = Path(__file__).parents[2] / "docs"
SHOWN = {
    "dashboard": "train-asym-0.25-s1",
    "task": "Attempts",
    "log": "epoch",
    "timeline": "GPU",
    "graph": "gather",
    "errors": "out",
    "retry": "Retry",
}
"""Of each picture a word that has to be on it."""


def test_the_pictures_can_be_taken_anew(tmp_path: Path) -> None:
    command = (sys.executable, "-m", "docs.pictures", "--quick", "--into", tmp_path)
    done = subprocess.run(command, cwd=DOCS.parent, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    assert {path.stem for path in tmp_path.iterdir()} == {path.stem for path in (DOCS / "pictures").iterdir()}
    assert [name for name, word in SHOWN.items() if word not in (tmp_path / f"{name}.svg").read_text()] == []
