"""The one table of actions."""

from __future__ import annotations

from collections import Counter
from itertools import combinations

import pytest

from tests.inside.tui import ACTIONS, BY_ID, Where, footer_of, on

TOGETHER: tuple[tuple[Where, ...], ...] = (("tasks", "deck"), ("gpus", "deck"))
"""Places whose keys hold at the same time. In a log its own keys come before those of the deck."""


@pytest.mark.parametrize("places", TOGETHER)
def test_no_key_does_two_things_in_one_place(places: tuple[Where, ...]) -> None:
    keys = Counter(key for action in on(*places) for key in action.keys)
    assert [key for key, count in keys.items() if count > 1] == []


def test_no_key_does_two_things_in_a_log() -> None:
    keys = Counter(key for action in on("log") for key in action.keys)
    assert [key for key, count in keys.items() if count > 1] == []


def test_keys_that_belong_to_terminals_are_not_bound() -> None:
    assert not {"ctrl+a", "ctrl+b", "ctrl+s"} & {key for action in ACTIONS for key in action.keys}


def test_every_action_has_a_name_of_its_own_and_a_sentence() -> None:
    assert len(BY_ID) == len(ACTIONS)
    assert not [action.id for action in ACTIONS if not action.tip or action.tip.endswith(".")]
    assert not [(a.id, b.id) for a, b in combinations(ACTIONS, 2) if a.tip == b.tip]


def test_footers_have_one_action_a_place() -> None:
    for place in ("tasks", "gpus", "log"):
        places = [action.footer for action in footer_of(on(place, "deck"))]
        assert places == sorted(places)
