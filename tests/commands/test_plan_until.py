"""`gpudeck plan --until`: what will be done by then."""

from __future__ import annotations

from datetime import datetime

import pytest

from tests.commands.commands_rig import Commanded
from tests.inside.commands import seconds_until

FILE = """
[deck]
gpus = "none"
cpu_slots = 1

[[task]]
name = "t{seed}"
gpus = 0
command = "true"
matrix.seed = [1, 2, 3]
"""


def test_what_will_not_be_done_by_then_is_named(deck: Commanded) -> None:
    deck.write(FILE)  # nothing is known of their lengths: an hour each
    assert (
        deck.command("plan", "--until", "90m").out.splitlines()[-1]
        == "after 90m: 1 of 3 tasks will be done; not t2, t3"
    )
    assert deck.command("plan", "--until", "4h").out.splitlines()[-1] == "after 4h: 3 of 3 tasks will be done"


@pytest.mark.parametrize(("text", "hours"), [("23:30", 0.5), ("08:00", 9.0), ("23:00", 24.0), ("10h", 10.0)])
def test_a_time_is_the_next_one_that_a_clock_shows(text: str, hours: float) -> None:
    assert seconds_until(text, datetime(2026, 11, 28, 23, 0)) == hours * 3600


@pytest.mark.parametrize("text", ["25:00", "soon"])
def test_what_is_no_time_is_refused(deck: Commanded, text: str) -> None:
    deck.write(FILE)
    ended = deck.command("plan", "--until", text)
    assert ended.code == 2
    assert '--until wants a time such as "08:00", or a duration such as "10h"' in ended.err
