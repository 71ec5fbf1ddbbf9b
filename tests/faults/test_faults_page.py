"""docs/dev/promises.md names tests that exist, and every fault."""

from __future__ import annotations

import re
from pathlib import Path

from tests.faults.cases import STATES
from tests.faults.faults import FAULTS

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/dev/promises.md").read_text()
NAMED = re.findall(r"`(tests/[\w/]+\.py)::(\w+)(?:\[([^\]]+)\])?`", PAGE)


def names_in(path: Path) -> set[str]:
    return {*re.findall(r"^ *(?:(?:async )?def |class |(?=Test\w+ = ))(\w+)", path.read_text(), re.MULTILINE)}


def test_every_test_that_the_page_names_exists() -> None:
    files = {path: names_in(ROOT / path) if (ROOT / path).exists() else set[str]() for path, _, _ in NAMED}
    assert len(NAMED) > 100
    assert [f"{path}::{name}" for path, name, _ in NAMED if name not in files[path]] == []


def test_every_case_of_the_matrix_that_the_page_names_exists() -> None:
    cases = {f"{fault}-{state}" for fault in FAULTS for state in STATES}
    assert [case for _, _, case in NAMED if case and case not in cases] == []


def test_every_fault_of_the_matrix_is_on_the_page() -> None:
    said = " ".join(PAGE.partition("## How it is tested")[2].split())
    assert [fault for fault in FAULTS if fault not in said] == []
