"""What the documentation says of the program is made from the program."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import get_args

import pytest

from tests.inside.root import DeckModel, Link, LinkKind, heading

ROOT = Path(__file__).parents[1]


def test_the_generated_parts_of_the_documentation_are_current():
    command = [sys.executable, ROOT / "docs" / "generate.py", "--check"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, f"run docs/generate.py: {done.stdout}{done.stderr}"


def test_the_readme_has_the_test_command_that_ci_runs():
    lines = re.findall(r"^ +(python3 -m venv .* -m pytest)$", (ROOT / "README.md").read_text(), re.MULTILINE)
    assert len(lines) == 1


def test_every_request_that_an_engine_answers_is_in_the_protocols_page():
    source = (ROOT / "engine" / "serve" / "requests.py").read_text()
    page = (ROOT / "docs" / "dev" / "protocol.md").read_text().partition("## Requests")[2].partition("## Messages")[0]
    cases = re.findall(r'^            case (".*?)(?: as \w+)?:$', source, re.MULTILINE)
    operations = {name.strip(' "') for case in cases for name in case.split("|")}
    assert len(operations) > 10
    assert [name for name in sorted(operations) if f"`{name}`" not in page] == []


@pytest.mark.parametrize("page", sorted((ROOT / "docs").rglob("*.md")), ids=lambda page: page.name)
def test_no_pipe_stands_in_the_code_of_a_table_where_github_or_the_site_shows_it_wrongly(page: Path) -> None:
    rows = [line for line in page.read_text().splitlines() if line.startswith("| ")]
    assert [row for row in rows if any("|" in code for code in re.findall(r"`([^`]*)`", row))] == []


@pytest.mark.parametrize("kind", [kind for kind in get_args(LinkKind) if kind not in ("connecting", "live")])
def test_the_page_of_the_screen_explains_what_the_header_says_of_an_engine_that_is_gone(kind: LinkKind) -> None:
    deck = DeckModel()
    deck.link = Link(kind, silent_s=12.0, read_only=kind == "files")
    said = heading(deck, 120, 0.0)[0][1][0].strip()
    assert f"| `{said}` |" in (ROOT / "docs" / "screen.md").read_text()
