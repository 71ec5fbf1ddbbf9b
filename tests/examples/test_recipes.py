"""docs/recipes.md: what is Python there runs; what is TOML is read by tests/test_docs_examples.py."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.torchrun

PAGE = Path(__file__).parents[2] / "docs" / "recipes.md"
PROGRAMS = ("# train_wandb.py\n", "# search.py\n")
"""They need files beside them: tests/e2e/test_recipes.py runs them with their tasks."""
PARTS = [part.partition("\n```")[0] for part in PAGE.read_text().split("```python\n")[1:]]
BLOCKS = [part for part in PARTS if not part.startswith(PROGRAMS)]


@pytest.mark.parametrize("code", BLOCKS)
def test_the_python_of_a_recipe_runs(code: str, tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_three_recipes_are_python() -> None:
    assert (len(BLOCKS), len(PARTS)) == (3, 3 + len(PROGRAMS))
