"""The table of docs/architecture.md, which part may import which, is what the code does."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
MODULES = sorted(path.relative_to(ROOT) for folder in ("engine", "tui") for path in (ROOT / folder).rglob("*.py"))
FREE = {"errors", "atomic", "counting", "globs"}


def name_of(module: Path) -> str:
    """ "engine/core/step.py" is in core, "engine/loop.py" is loop, all of the screen is tui."""
    return "tui" if module.parts[0] == "tui" else module.parts[1].removesuffix(".py")


@cache
def table() -> list[tuple[list[str], str]]:
    """Of each row the folders and files that it is about, and what it says that they may import."""
    text = (ROOT / "docs" / "architecture.md").read_text()
    rows = text[text.index("| part | what it does | may import |") :].split("\n\n")[0].splitlines()[2:]
    found: list[tuple[list[str], str]] = []
    for row in rows:
        first, _, last = (cell.strip() for cell in row.strip("|").split("|"))
        parts = re.findall(r"`([^`]+)`", first)
        folder = parts[0].rpartition("/")[0]
        found.append(([part if "/" in part else f"{folder}/{part}" for part in parts], last))
    return found


def row_of(module: Path) -> int | None:
    """A file that is named, else the folder that it lies in."""
    for place, (parts, _) in enumerate(table()):
        if str(module) in parts:
            return place
    for place, (parts, _) in enumerate(table()):
        if any(module.is_relative_to(part.rstrip("/")) for part in parts if not part.endswith(".py")):
            return place
    return None


def allowed(place: int) -> set[str]:
    _, words = table()[place]
    every = {name_of(module) for module in MODULES}
    if words.startswith("everything"):
        return every
    if words.startswith("all but "):
        return every - set(words.removeprefix("all but ").split(", "))
    above = words.startswith("all of these")
    names = set(re.findall(r"\w+", words.removeprefix("all of these")))
    return names | ({name_of(module) for module in MODULES if (row_of(module) or 0) <= place} if above else set())


def imported(module: Path) -> Iterator[str]:
    """Names of the parts that a module imports from, its own left out."""
    for node in ast.walk(ast.parse((ROOT / module).read_text())):
        if isinstance(node, ast.ImportFrom) and node.level:
            folder = module.parents[node.level - 1]
            base = folder.joinpath(*(node.module or "").split("."))
            for alias in node.names:
                target = base if node.module and base != Path("engine") else base / alias.name
                if len(target.parts) > 1 and target.parts[0] in ("engine", "tui"):
                    yield name_of(target)


def test_every_module_has_a_place_in_the_table() -> None:
    assert [module for module in MODULES if module.name != "__init__.py" and row_of(module) is None] == []


@pytest.mark.parametrize("place", range(len(table())), ids=[parts[0] for parts, _ in table()])
def test_a_part_imports_only_what_the_table_says(place: int) -> None:
    mine = [module for module in MODULES if row_of(module) == place]
    own = {name_of(module) for module in mine}
    over = {(str(module), name) for module in mine for name in imported(module)}
    assert {pair for pair in over if pair[1] not in allowed(place) | own | FREE} == set()


def test_the_table_names_nothing_that_is_not_there() -> None:
    missing = [part for parts, _ in table() for part in parts if not (ROOT / part).exists()]
    known = {name_of(module) for module in MODULES}
    plain = [words for _, words in table() if not words.startswith(("all", "everything"))]
    assert (missing, {word for words in plain for word in re.findall(r"\w+", words)} - known) == ([], set())
