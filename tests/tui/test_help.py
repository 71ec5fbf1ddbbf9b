"""The help: complete, and on few pages."""

from __future__ import annotations

import pytest

from tests.fakes.snapshot_deck import ROWS, head
from tests.fakes.snapshot_gpus import EIGHT
from tests.fakes.snapshot_pages import PAGES
from tests.fakes.snapshot_rig import snapshot_of, whole
from tests.fakes.snapshot_tasks import FAILED, answer
from tests.inside.tui import (
    ACTIONS,
    BY_ID,
    FLAGS,
    KEY_CELLS,
    LEAST_CELLS,
    LOOKS,
    PLACES,
    HelpLine,
    Pages,
    Where,
    on,
    pages_of,
    shown,
    told_of,
    width_of,
)

INSIDE = {"80x24": (76, 22), "120x40": (116, 38), "200x60": (196, 58)}
OVER: dict[str, tuple[str, ...]] = {
    "tasks": (),
    "gpus": ("tab",),
    "log": ("l",),
    "detail": ("d",),
    "errors": ("e",),
    "timeline": ("t",),
    "graph": ("o",),
    "curves": ("C",),
}
"""How one comes to a place from the table."""


def lines(found: Pages) -> list[HelpLine]:
    return [line for page in found.pages for column in page for line in column]


def titles(found: Pages) -> list[str]:
    return [line.text for line in lines(found) if line.kind == "title"]


@pytest.mark.parametrize("inside", INSIDE.values(), ids=INSIDE)
@pytest.mark.parametrize("here", PLACES)
def test_the_help_has_every_action_and_every_sign(here: Where, inside: tuple[int, int]) -> None:
    told = lines(pages_of(here, *inside))

    assert sorted(line.action_id for line in told if line.kind == "action") == sorted(BY_ID)
    assert {line.key for line in told if line.kind == "sign"} == {
        *(look.glyph for look in LOOKS.values()),
        *(glyph for glyph, _ in FLAGS.values()),
    }


def test_at_80x24_the_first_page_has_every_key_of_the_table_and_of_the_deck() -> None:
    first = pages_of("tasks", *INSIDE["80x24"]).pages[0]

    there = {line.action_id for column in first for line in column}
    assert {action.id for action in on("tasks", "deck")} <= there


@pytest.mark.parametrize(("size", "pages"), [("80x24", 3), ("120x40", 2), ("200x60", 1)])
def test_the_help_fits_few_pages(size: str, pages: int) -> None:
    assert len(pages_of("tasks", *INSIDE[size]).pages) == pages


@pytest.mark.parametrize("inside", INSIDE.values(), ids=INSIDE)
def test_every_column_of_the_help_begins_with_a_title(inside: tuple[int, int]) -> None:
    found = pages_of("tasks", *inside)
    assert {column[0].kind for page in found.pages for column in page} == {"title"}


@pytest.mark.parametrize("here", PLACES)
def test_the_help_begins_with_the_place_where_one_is(here: Where) -> None:
    assert titles(pages_of(here, *INSIDE["80x24"]))[0] == PLACES[here]


def test_no_column_is_higher_than_its_page_and_no_title_stands_at_its_foot() -> None:
    for height in range(4, 60):
        found = pages_of("log", 76, height)
        columns = [column for page in found.pages for column in page]
        assert max(map(len, columns)) <= height
        assert not [column[-1] for column in columns if column[-1].kind == "title"]


def test_what_is_said_in_narrow_columns_is_not_cut() -> None:
    for action in ACTIONS:
        key = max(KEY_CELLS, width_of(" ".join(map(shown, action.keys))))
        assert width_of(told_of(action, LEAST_CELLS - key - 1)) <= LEAST_CELLS - key - 1, action.id


async def test_every_key_that_works_is_in_the_help() -> None:
    async with snapshot_of(whole(ROWS, head(), EIGHT), answers={"show": answer(FAILED), **PAGES}) as rig:
        for place, keys in OVER.items():
            await rig.press(*keys)
            screen = rig.app.screen
            await rig.until(lambda place=place: getattr(rig.app.screen, "place", "") == place, f"it is at {place}")
            told = {key for action in ACTIONS if action.where in (place, *ALSO[place]) for key in action.keys}
            assert set(screen.active_bindings) - told - OF_ALL == set(), place
            await rig.press("shift+tab" if keys == ("tab",) else "escape")


OF_ALL = {"ctrl+c", "super+c"}
"""Of programs for terminals as such: one is told what to press instead, the other copies what the mouse has marked."""
ALSO: dict[str, tuple[str, ...]] = {
    "tasks": ("panes", "deck"),
    "gpus": ("tasks", "panes", "deck"),
    "log": ("tasks", "deck", "page"),
    "detail": ("page", "tasks", "deck"),
    "errors": ("page", "tasks", "deck"),
    "timeline": ("page", "deck"),
    "graph": ("page", "deck"),
    "curves": ("page", "tasks", "deck"),
}
"""Whose keys mean something there, too."""
