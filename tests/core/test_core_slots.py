"""How many slots [deck] gives each GPU."""

from __future__ import annotations

import pytest

from gpudeck.engine.core.build import slots_of
from gpudeck.engine.core.spec import DeckSettings


@pytest.mark.parametrize("name", ["3", "GPU-5f2a77", "GPU-5f2a"])
def test_a_gpu_has_its_slots_by_index_uuid_or_the_beginning_of_one(name: str) -> None:
    assert slots_of(DeckSettings(slots_per_gpu={"1": 4, name: 2}), 3, "GPU-5f2a77") == 2


def test_a_whole_uuid_goes_before_the_beginning_of_one() -> None:
    slots = {"GPU-5f2a": 2, "GPU-5f2a77": 3}
    assert slots_of(DeckSettings(slots_per_gpu=slots), 0, "GPU-5f2a77") == 3


def test_a_gpu_that_is_not_named_has_one_slot() -> None:
    assert slots_of(DeckSettings(slots_per_gpu={"1": 4}), 0, "GPU-5f2a77") == 1
