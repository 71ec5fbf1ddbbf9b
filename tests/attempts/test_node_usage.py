"""What jobs of a cluster use of their GPUs, by the samples of their wrappers."""

from __future__ import annotations

import pytest

from tests.inside.attempts import Usage, rounds_in

TWO_CARDS = """\
1000,0,50,1000,8000,40,100.00
1000,1,70,3000,8000,41,200.00
1005,0,60,2000,8000,40,100.00
1006,1,80,3000,8000,41,200.00
"""


def test_a_round_has_each_card_once() -> None:
    rounds = list(rounds_in(TWO_CARDS))
    assert [[(card.uuid, card.at) for card in cards] for cards in rounds] == [
        [("0", 1000.0), ("1", 1000.0)],
        [("0", 1005.0), ("1", 1006.0)],
    ]


def test_what_a_card_does_not_tell_is_not_known() -> None:
    ((card,),) = rounds_in("1000,0,[N/A],[N/A],8000,[N/A],[N/A]\n")
    assert (card.util_percent, card.used_mib, card.total_mib, card.power_w) == (None, None, 8000, None)


@pytest.mark.parametrize("line", ["", "No devices were found", "1000,0,5", "x,0,50,1,2,3,4", "1000,gpu,50,1,2,3,4"])
def test_lines_that_are_none_are_passed_over(line: str) -> None:
    assert list(rounds_in(f"{line}\n")) == []


def test_peaks_means_and_energy_come_from_the_samples() -> None:
    usage = Usage()
    for cards in rounds_in(TWO_CARDS):
        usage.tell("t", cards[0].at - 1000, cards)
    used = usage.finish("t")
    assert (used.peak_mib, used.mean_util_percent) == (3000, 65.0)
    assert used.mean_power_w(2) == pytest.approx(300.0)
    assert used.energy_wh(2, 3600.0) == pytest.approx(300.0)
    assert (used.history.at_s, used.history.memory_mib) == ([0.0, 5.0], [3000, 3000])
    assert used.history.power_w == [300.0, 300.0]


def test_energy_is_not_known_where_only_one_of_several_nodes_tells() -> None:
    usage = Usage()
    for cards in rounds_in(TWO_CARDS):
        usage.tell("t", 0.0, cards)
    assert usage.finish("t").energy_wh(4, 3600.0) is None
