"""What the documentation says of the program is made from the program."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_the_generated_parts_of_the_documentation_are_current():
    command = [sys.executable, ROOT / "docs" / "generate.py", "--check"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, f"run docs/generate.py: {done.stdout}{done.stderr}"
