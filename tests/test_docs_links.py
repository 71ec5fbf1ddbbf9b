"""No link of the documentation is dead, and no page of it is lost."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md"), *(ROOT / "examples").rglob("*.md")])
FENCED = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)
CODE = re.compile(r"`[^`\n]*`")
LINK = re.compile(r"\]\(([^)\s]+)\)")
DEFINED = re.compile(r"^\[[^]]+\]: (\S+)$", re.MULTILINE)
LARGEST_PICTURE_BYTES = 100_000


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def prose(page: Path) -> str:
    return FENCED.sub("", page.read_text())


def links(page: Path) -> Iterator[str]:
    text = CODE.sub("`code`", prose(page))
    yield from LINK.findall(text)
    yield from DEFINED.findall(text)


@cache
def anchors(page: Path) -> frozenset[str]:
    """Those of a page's headings: lower case, hyphens for spaces, no other signs."""
    headings = re.findall(r"^#+ (.*)$", prose(page), re.MULTILINE)
    words = (re.sub(r"[^\w\s-]", "", re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading)) for heading in headings)
    return frozenset(re.sub(r"[\s-]+", "-", heading.strip().lower()) for heading in words)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_link_leads_somewhere(page: Path) -> None:
    dead: list[str] = []
    for link in links(page):
        if link.startswith(("https://", "mailto:")):
            continue
        file, _, anchor = link.partition("#")
        target = Path(os.path.normpath(page.parent / file)) if file else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            dead.append(link)
    assert dead == []


def test_every_page_has_its_place_in_the_site_and_in_the_index() -> None:
    nav = (ROOT / "mkdocs.yml").read_text().partition("\nnav:")[2]
    index = (DOCS / "index.md").read_text()
    pages = [str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md")]
    pages = [page for page in pages if not page.startswith("dev/gpus-seen/")]  # gpus-seen.md lists them
    assert [page for page in pages if page not in nav] == [], "list them under nav in mkdocs.yml"
    assert [page for page in pages if page != "index.md" and f"({page}" not in index] == [], "link them in index.md"


def test_every_picture_is_shown_somewhere_and_small() -> None:
    shown = {Path(link).name for page in PAGES for link in links(page) if link.endswith((".svg", ".png"))}
    pictures = list((DOCS / "pictures").iterdir())
    assert {picture.name for picture in pictures} == shown
    assert [picture.name for picture in pictures if picture.stat().st_size > LARGEST_PICTURE_BYTES] == []


def test_pictures_load_nothing_from_elsewhere() -> None:
    for picture in (DOCS / "pictures").glob("*.svg"):
        assert set(re.findall(r"https?://[^\s\"')]+", picture.read_text())) <= {
            "http://www.w3.org/2000/svg", "https://www.textualize.io"
        }  # fmt: skip
