"""How far a task is, from whole outputs."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.inside.logs import Rank, Tracker, clean, reader_of

SAMPLES = Path(__file__).parent / "samples"


def fed(lines: Iterable[str], tracker: Tracker | None = None) -> list[float | None]:
    """The share after each line."""
    tracker = tracker or Tracker()
    shares: list[float | None] = []
    for line in lines:
        tracker.feed(line)
        shares.append(tracker.share)
    return shares


def sample(name: str) -> list[str]:
    text = (SAMPLES / f"{name}.txt").read_bytes().decode()
    return [clean(piece) for piece in re.split(r"[\r\n]", text) if piece.strip()]


def rises(shares: list[float | None]) -> bool:
    known = [share for share in shares if share is not None]
    return known == sorted(known)


@pytest.mark.parametrize("name", ["tqdm-nested", "tqdm-epochs"])
def test_real_bars_are_followed_from_the_beginning_to_the_end(name: str) -> None:
    shares = fed(sample(name))
    known = [share for share in shares if share is not None]
    steps = [after - before for before, after in itertools.pairwise(known)]
    assert (known[0], known[-1], rises(shares)) == (0.0, 1.0, True)
    assert max(steps) < 0.1, "no jump: bars within bars are put together"


def test_a_download_and_validations_are_left_aside_and_epochs_go_before_bars() -> None:
    lines = sample("tqdm-phases")
    first = next(place for place, line in enumerate(lines) if line.startswith("Epoch [1/3]"))
    assert "data.tgz" in lines[0]
    assert fed(lines)[0] is None
    since = fed(lines)[first:]
    assert (since[0], since[-1], rises(since)) == (pytest.approx(1 / 3), 1.0, True)


def test_a_bar_that_begins_again_tells_nothing_of_the_task() -> None:
    """Nobody knows how often it will."""
    shares = fed(sample("tqdm-again"))
    assert shares[5] is not None
    assert shares[-1] is None


@pytest.mark.parametrize(
    "label", ["[{}/4]", "{}/4", "({}/4)", "Train {}/4", "Training [{}/4]", "Round {}/4", "Fold {}/4", "Epoch {}/4"]
)
def test_a_bar_whose_label_counts_the_laps_is_a_part_of_the_task(label: str) -> None:
    laps = [(lap, batch) for lap in (1, 2, 3, 4) for batch in (0, 25, 50, 75, 100)]
    lines = [f"{label.format(lap)}: {batch:3}%|#####     | {batch}/100 [00:12<00:17, 33.1it/s]" for lap, batch in laps]
    shares = fed(lines)
    assert shares[2] == pytest.approx(0.125, abs=0.01)
    assert shares[-3] == pytest.approx(0.875, abs=0.01)
    assert rises(shares)


def test_batches_begin_anew_and_the_task_goes_on() -> None:
    lines = [f"epoch [{epoch}/4] batch [{batch}/5] loss 0.1" for epoch in range(1, 5) for batch in range(1, 6)]
    shares = fed(lines)
    assert shares == pytest.approx([count / 20 for count in range(1, 21)])


def test_an_epoch_that_has_only_begun_is_not_done() -> None:
    assert fed(["Epoch 1/5", "Epoch 2/5"]) == [0.0, 0.2]


def test_an_epoch_that_is_named_again_is_not_done() -> None:
    assert fed(["Epoch 1/4", "Epoch 1/4", "Epoch 1/4"])[-1] == 0.0


def test_an_epoch_with_results_is_done() -> None:
    assert fed(["epoch 1/5 loss 0.25", "epoch 2/5 loss 0.20"]) == [0.2, 0.4]


def test_lines_at_the_end_of_an_epoch_put_what_follows_into_the_next() -> None:
    shares = fed(["step 5/10", "step 10/10", "Epoch 1/2 loss 0.3", "step 5/10", "step 10/10", "Epoch 2/2 loss 0.2"])
    assert shares[2:] == [0.5, 0.75, 1.0, 1.0]


def test_epochs_may_count_from_zero() -> None:
    assert fed(["Epoch [0/4]", "Epoch [1/4]", "Epoch [3/4] loss: 0.25"]) == [0.0, 0.25, 1.0]


def test_seeds_around_epochs_are_the_whole() -> None:
    lines = [f"seed {seed}/2 epoch {epoch}/5 loss 0.1" for seed in (1, 2) for epoch in range(1, 6)]
    assert fed(lines) == pytest.approx([count / 10 for count in range(1, 11)])


def test_epochs_that_begin_again_tell_nothing_of_the_task() -> None:
    shares = fed([f"epoch {epoch}/3 loss 0.1" for _ in range(2) for epoch in range(1, 4)])
    assert shares[:3] == pytest.approx([1 / 3, 2 / 3, 1.0])
    assert shares[3:] == [None, None, None]


def test_a_second_phase_with_another_number_of_epochs_is_followed_anew() -> None:
    warm, main = [f"epoch {n}/2 loss 0.1" for n in (1, 2)], [f"epoch {n}/4 loss 0.1" for n in (1, 2)]
    assert fed([*warm, *main]) == [0.5, 1.0, 0.25, 0.5]


def test_another_counter_now_and_then_does_not_confuse() -> None:
    assert fed(["epoch 4/10 loss 0.1", "epoch 1/2 loss 0.1", "epoch 5/10 loss 0.1"])[-1] == 0.5


def test_another_counter_five_times_in_a_row_is_what_goes_on_now() -> None:
    lines = ["epoch 1/3 loss 0.1", *(f"epoch {n}/9 loss 0.1" for n in range(1, 6))]
    assert fed(lines) == pytest.approx([1 / 3] * 5 + [5 / 9])


def test_an_epoch_of_another_counter_that_ends_changes_nothing() -> None:
    assert fed(["epoch 4/5 loss 0.2", "Epoch 0 done"]) == [0.8, 0.8]


def test_epochs_that_a_bar_counts_are_over_when_it_says_so() -> None:
    bar = "Epochs:  75%|███████▌  | 3/4 [00:12<00:04,  4.00s/it]"
    assert fed(["Epoch 3/4 loss 0.1", bar]) == [0.75, 0.75]


def test_epochs_that_are_looked_back_at_are_not_where_the_task_is() -> None:
    lines = [f"epoch {n} loss 0.1" for n in (7, 8, 6, 3, 9)]
    assert fed(lines, Tracker(command="train --epochs 10")) == [0.7, 0.8, 0.8, 0.8, 0.9]


def test_a_round_that_is_looked_back_at_and_steps_without_a_total_change_nothing() -> None:
    lines = ["[66] train-rmse:0.2", "[34] train-rmse:0.1", "step 58"]
    assert fed(lines, Tracker(command="fit --num_boost_round 100")) == [0.67, 0.67, 0.67]


def test_huggings_faces_dicts_count_epochs_once_their_number_is_known() -> None:
    lines = ["  Num Epochs = 4", "{'loss': '0.5', 'epoch': '1.0'}", "{'loss': 0.4, 'epoch': 2.5}"]
    assert fed(lines) == [None, 0.25, 0.625]


def test_huggings_faces_bar_is_the_task() -> None:
    lines = ["{'loss': '0.5', 'epoch': '1.0'}", "  1%|▏         | 10/1000 [00:12<20:37,  1.25s/it]"]
    assert fed(lines) == [None, 0.01]


def test_lightnings_bars_need_the_number_of_epochs() -> None:
    line = "Epoch {}:  50%|████▏     | 143/286 [00:12<00:17,  9.70it/s, v_num=0]"
    assert fed([line.format(0), line.format(1)], Tracker(command="train --max_epochs 4")) == [0.125, 0.375]
    assert fed([line.format(0), line.format(1)]) == [None, None]


def test_validation_is_not_progress() -> None:
    bar = "{}:  {}%|█| {}/10 [00:12<00:17,  9.70it/s]"
    shares = fed([bar.format("Training", 50, 5), bar.format("Validation", 90, 9), bar.format("Training", 60, 6)])
    assert shares == [0.5, 0.5, 0.6]


def test_where_nothing_else_is_printed_an_evaluation_is_the_task() -> None:
    tracker = Tracker()
    assert fed(["Evaluating:  50%|█| 5/10 [00:12<00:17,  9.70it/s]"], tracker) == [0.5]
    assert tracker.rank is Rank.ASIDE


def test_what_the_task_says_itself_goes_before_all_else() -> None:
    assert fed(["epoch 9/10 loss 0.1", "::gpudeck progress=3/100", "epoch 10/10 loss 0.1"]) == [0.9, 0.03, 0.03]


def test_a_users_pattern_takes_the_place_of_all_others() -> None:
    tracker = Tracker(read=reader_of(r"it=(\d+) of=(\d+)"))
    assert fed(["epoch 9/10 loss 0.1", "it=1 of=4", "it=3 of=4", "it=2 of=4"], tracker) == [None, 0.25, 0.75, 0.75]


def test_an_outer_bar_that_was_given_up_is_not_followed_for_ever() -> None:
    given_up = "warm:  10%|█| 1/10 [00:12<00:17,  9.70it/s]"
    again = [f"loop:  {10 * n}%|█| {n}/10 [00:12<00:17,  9.70it/s]" for _ in range(8) for n in range(1, 11)]
    assert fed([given_up, *again])[-1] is None


LINES = st.sampled_from(
    [
        "epoch {a}/{b}", "epoch {a}/{b} loss 0.5", "Epoch {a}:  5%|█| {b}/9 [00:12<", "step {a}/{b}", "seed {a}/{b}",
        "x:  5%|█| {a}/{b} [00:12<", "Epoch: [{a}][{a}/{b}]", "{{'epoch': {a}.5}}", "::gpudeck progress={a}/{b}",
        "Num Epochs = {b}", "val:  5%|█| {a}/{b} [00:12<", "words",
    ]
)  # fmt: skip


@given(st.lists(st.tuples(LINES, st.integers(0, 9), st.integers(0, 9)), max_size=60))
def test_the_share_lies_between_nothing_and_all_and_never_falls_for_one_counter(
    said: list[tuple[str, int, int]],
) -> None:
    tracker = Tracker()
    before: tuple[object, float] | None = None
    for form, a, b in said:
        tracker.feed(form.format(a=a, b=b))
        share = tracker.share
        if share is None:
            continue
        assert 0.0 <= share <= 1.0
        assert before is None or before[0] != tracker.key or share >= before[1]
        before = (tracker.key, share)


@pytest.mark.parametrize(
    ("line", "rank"),
    [
        ("epoch 1/4", Rank.EPOCH),
        ("train:  50%|█████     | 5/10 [00:05<00:05,  1.00it/s]", Rank.STEP),
        ("::gpudeck progress=0.5", Rank.WHOLE),
    ],
)
def test_it_is_known_whether_a_share_is_of_the_task_of_its_epochs_or_of_a_bar(line: str, rank: Rank) -> None:
    tracker = Tracker()
    tracker.feed(line)
    assert tracker.rank is rank
