"""What is found in one attempt's logs; the helper's work without its process."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.inside.logs import (
    METRIC,
    PROGRESS,
    WATCH,
    Curve,
    Follower,
    HungError,
    follow,
    limited_cpu,
    read_kept,
    telling,
)

CATASTROPHE = "(a+a+)+c"
BAIT = "a" * 60 + "b"


class Attempt:
    """An attempt's files, followed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.out, self.err = folder / "attempt-1.log", folder / "attempt-1.err"
        self.busy: list[tuple[int, int]] = []
        """What the follower has said that it is busy with."""

    def follow(self, **ask: Any) -> Follower:
        fixed = {"id": 7, "token": "t", "out": str(self.out), "err": str(self.err), "started_wall": time.time()}
        keys = {
            "kept": str(self.folder / "attempt-1.curves.json"),
            "json": str(self.folder / "attempt-1.json"),
            "resumed": False,
            "before": (),
            "command": "",
            "progress": "",
            "total": None,
            "metrics": [],
            "silent_s": None,
            "pattern": "",
            "prune": None,
        }
        return Follower(
            {**fixed, **keys, "was_silent": False, "most_bytes": None, "was_large": False, "known": {}, **ask},
            lambda number, what: self.busy.append((number, what)),
        )

    def again(self, **ask: Any) -> Follower:
        """Another attempt, which goes on from the first one."""
        kept, before = (str(self.folder / f"attempt-{number}.curves.json") for number in (2, 1))
        return self.follow(**{"token": "t2", "kept": kept, "before": [before], "resumed": True, **ask})

    def kept(self, number: int) -> Sequence[Curve]:
        return read_kept(str(self.folder / f"attempt-{number}.curves.json")).curves

    def say(self, *lines: str) -> None:
        with self.out.open("a") as file:
            file.writelines(f"{line}\n" for line in lines)

    def warn(self, text: str) -> None:
        with self.err.open("a") as file:
            file.write(text)


@pytest.fixture
def attempt(tmp_path: Path) -> Attempt:
    return Attempt(tmp_path)


def metric(name: str, **more: object) -> dict[str, object]:
    return {"name": name, "regex": "", "file": "", "key": "", "best": "last", **more}


def test_a_look_tells_what_has_changed(attempt: Attempt) -> None:
    follower = attempt.follow()
    attempt.say("epoch 1/4 loss 0.5")
    assert follower.look() == {"share": 0.25, "line": "epoch 1/4 loss 0.5"}
    assert follower.look() == {}
    attempt.say("epoch 2/4 loss 0.4")
    assert follower.look() == {"share": 0.5, "line": "epoch 2/4 loss 0.4"}


def test_bars_on_standard_error_are_progress_too(attempt: Attempt) -> None:
    attempt.warn("\r 10%|█| 1/10 [00:01<00:09,  1.00s/it]\r 20%|█| 2/10 [00:02<00:08,  1.00s/it]\r")
    assert attempt.follow().look()["share"] == 0.2


def test_metrics_come_from_lines_files_and_gpudeck_lines(attempt: Attempt) -> None:
    file = attempt.folder / "metrics.json"
    file.write_text('{"val": {"acc": [0.9, 0.8]}}')
    follower = attempt.follow(
        metrics=[
            metric("loss", regex=r"loss (\S+)", best="min"), metric("acc", file=str(file), key="val.acc", best="max")
        ]
    )  # fmt: skip
    attempt.say("loss 0.2", "loss 0.3", "::gpudeck lr=0.01")
    changes = follower.look()
    assert changes["metrics"] == {"loss": 0.3, "acc": 0.8, "lr": 0.01}
    assert changes["best"] == {"loss": 0.2, "acc": 0.9, "lr": 0.01}


def test_what_is_no_number_is_told_as_text(attempt: Attempt) -> None:
    attempt.say("loss nan")
    changes = attempt.follow(metrics=[metric("loss", regex=r"loss (\S+)")]).look()
    assert (changes["metrics"], "best" in changes) == ({"loss": "nan"}, False)


def test_another_follower_goes_on_from_what_is_known(attempt: Attempt) -> None:
    loss = [metric("loss", regex=r"loss (\S+)", best="min")]
    attempt.say("loss 0.1", "loss 0.2", "::gpudeck lr=0.5")
    first = attempt.follow(metrics=loss)
    first.look()
    assert first.known == {"loss": (0.2, 0.1), "lr": (0.5, 0.5)}
    first.keep(at_once=True)
    attempt.out.write_text("loss 0.3\n")
    changes = attempt.follow(metrics=loss, known=first.known).look()
    assert (changes["metrics"], changes["best"]) == ({"loss": 0.3, "lr": 0.5}, {"loss": 0.1, "lr": 0.5})
    assert changes["curve"] == [0.1, 0.2, 0.3]


def test_curves_are_kept_beside_the_log_and_another_follower_goes_on_with_them(attempt: Attempt) -> None:
    loss = [metric("loss", regex=r"loss (\S+)")]
    first = attempt.follow(metrics=loss, started_wall=time.time() - 60)
    attempt.say("step 1: loss 3", "step 2: loss nan", "step 3: lo")
    first.look()
    first.keep(at_once=True)
    attempt.say("step 3: loss 1", "::gpudeck step=3 acc=0.5")
    second = attempt.follow(metrics=loss, started_wall=time.time() - 60)
    second.look(final=True)
    second.keep(at_once=True)
    attempt.out.unlink()
    kept = {curve.name: curve for curve in read_kept(str(attempt.folder / "attempt-1.curves.json")).curves}
    assert repr(kept["loss"].points) == "((1.0, 3.0), (2.0, nan), (3.0, 1.0))"
    assert kept["acc"].points == ((3, 0.5),)
    assert kept["loss"].at_s == tuple(sorted(kept["loss"].at_s))
    assert 0 < kept["loss"].at_s[0] < kept["loss"].at_s[-1] <= 61


def test_curves_are_written_once_in_a_while_and_at_the_end(attempt: Attempt, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(follow, "KEEP_S", float("inf"))
    follower = attempt.follow(metrics=[metric("loss", regex=r"loss (\S+)")])
    attempt.say("loss 3")
    follower.look()
    follower.keep(at_once=False)
    assert attempt.kept(1) == ()
    follower.keep(at_once=True)
    assert [curve.name for curve in attempt.kept(1)] == ["loss"]


def test_an_attempt_that_goes_on_from_another_has_the_curve_of_both_and_what_it_did_again_is_its_own(
    attempt: Attempt,
) -> None:
    loss = [metric("loss", regex=r"loss=(\S+)", best="min")]
    attempt.say(*(f"step {step} loss={10 - step}" for step in range(1, 7)), "::gpudeck step=6 acc=0.5")
    first = attempt.follow(metrics=loss, started_wall=time.time() - 60)
    first.look(final=True)
    first.keep(at_once=True)
    attempt.out.write_text("")
    second = attempt.again(metrics=loss)
    second.look()
    second.keep(at_once=True)
    assert {curve.name: curve.count for curve in attempt.kept(2)} == {"loss": 6, "acc": 1}
    attempt.say("best of the checkpoint: loss=4", "step 5 loss=50", "step 7 loss=70")
    second.look(final=True)
    second.keep(at_once=True)
    third = attempt.again(metrics=loss)  # of another engine, while the same attempt runs
    attempt.say("step 8 loss=80")
    third.look(final=True)
    third.keep(at_once=True)
    acc, kept = attempt.kept(2)
    assert kept.points == ((1, 9), (2, 8), (3, 7), (4, 6), (5, 50), (7, 70), (8, 80))
    assert (kept.count, kept.low, kept.high) == (7, (4, 6), (8, 80))
    assert kept.at_s == tuple(sorted(kept.at_s))
    assert acc.points == ((6, 0.5),)


def test_what_an_attempt_has_come_to_at_a_point_counts_what_it_goes_on_from(attempt: Attempt) -> None:
    loss = [metric("loss", regex=r"loss=(\S+)")]
    attempt.say("epoch 1/4 loss=1")
    first = attempt.follow(metrics=loss)
    first.look(final=True)
    first.keep(at_once=True)
    attempt.out.write_text("epoch 2/4 loss=3\n")
    prune = {"metric": "loss:min", "name": "loss", "by": "min", "at": [0.25]}
    for resumed, value in ((True, 1.0), (False, 3.0)):
        second = attempt.again(metrics=loss, prune=prune, resumed=resumed)
        second.look()
        assert second.points == [("loss:min", 0.25, value)]


def test_a_value_on_a_line_of_ours_stands_at_the_step_before_it(attempt: Attempt) -> None:
    attempt.say("step 10/30", "::gpudeck loss=3", "step 20/30", "::gpudeck loss=2")
    follower = attempt.follow(metrics=[])
    follower.look()
    follower.keep(at_once=True)
    (kept,) = read_kept(str(attempt.folder / "attempt-1.curves.json")).curves
    assert (kept.x, kept.points) == ("step", ((10, 3), (20, 2)))


def test_a_metric_that_a_line_of_ours_names_and_a_pattern_finds_there_too_is_one_value_at_its_progress(
    attempt: Attempt,
) -> None:
    attempt.say("::gpudeck progress=1/4 loss=3 val_acc=0.1", "::gpudeck progress=2/4 loss=2 val_acc=0.2")
    follower = attempt.follow(metrics=[metric("loss", regex=r"loss=(\S+)"), metric("acc", regex=r"acc=(\S+)")])
    assert follower.look()["metrics"] == {"loss": 2, "acc": 0.2, "val_acc": 0.2}
    follower.keep(at_once=True)
    kept = {curve.name: curve for curve in read_kept(str(attempt.folder / "attempt-1.curves.json")).curves}
    assert (kept["loss"].x, kept["loss"].points) == ("progress", ((1, 3), (2, 2)))
    assert (kept["acc"].x, kept["acc"].points) == ("progress", ((1, 0.1), (2, 0.2)))


def test_the_curve_of_a_metric_has_a_few_points_from_its_beginning_to_its_end(attempt: Attempt) -> None:
    follower = attempt.follow(metrics=[metric("loss", regex=r"loss (\S+)")])
    for number in range(1, 101):
        attempt.say(f"loss {number}", "loss nan")
        curve = follower.look()["curve"]
        assert (curve[0], curve[-1], curve == sorted(curve), len(curve) <= 16) == (1, number, True, True)
    assert len(curve) > 8


def test_many_names_on_gpudeck_lines_are_not_all_kept(attempt: Attempt) -> None:
    for start in range(0, 1000, 50):
        attempt.say("::gpudeck " + " ".join(f"m{n}={n}" for n in range(start, start + 50)))
    assert len(attempt.follow().look()["metrics"]) == 128


def test_a_watch_pattern_is_found_once(attempt: Attempt) -> None:
    follower = attempt.follow(pattern=r"\bnan\b")
    attempt.say("loss 0.1", "loss nan", "loss nan")
    attempt.warn("nan\n")
    follower.look()
    attempt.say("loss nan")
    follower.look()
    assert follower.hits == ["loss nan"]


def test_a_watch_pattern_is_looked_for_on_both_streams(attempt: Attempt) -> None:
    follower = attempt.follow(pattern="diverged")
    attempt.warn("\x1b[31mdiverged\x1b[0m\n")
    follower.look()
    assert follower.hits == ["diverged"]


def test_silence_is_told_once_and_that_it_is_over(attempt: Attempt) -> None:
    attempt.say("hello")
    os.utime(attempt.out, (time.time() - 1800,) * 2)
    follower = attempt.follow(silent_s=60.0, started_wall=time.time() - 3600)
    assert follower.look()["silent"] is True
    assert "silent" not in follower.look()
    attempt.say("again")
    assert follower.look()["silent"] is False


def test_a_log_that_was_written_a_moment_ago_is_not_silent(attempt: Attempt) -> None:
    attempt.say("hello")
    assert "silent" not in attempt.follow(silent_s=60.0, started_wall=time.time() - 3600).look()


def test_an_attempt_without_any_log_is_silent_from_its_start(attempt: Attempt) -> None:
    assert attempt.follow(silent_s=60.0, started_wall=time.time() - 3600).look() == {"silent": True}
    assert attempt.follow(silent_s=60.0, started_wall=time.time() - 30).look() == {}


def test_a_silence_that_was_told_by_another_helper_is_not_told_again(attempt: Attempt) -> None:
    assert attempt.follow(silent_s=60.0, started_wall=time.time() - 3600, was_silent=True).look() == {}
    attempt.say("hello")
    changes = attempt.follow(silent_s=60.0, started_wall=time.time() - 3600, was_silent=True).look()
    assert changes["silent"] is False


def test_a_pattern_that_hangs_is_given_up_and_the_others_go_on(
    attempt: Attempt, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follow, "PATTERN_CPU_S", 0.1)
    follower = attempt.follow(
        progress=CATASTROPHE,
        pattern=CATASTROPHE,
        metrics=[metric("bad", regex=CATASTROPHE), metric("good", regex=r"good (\d)")],
    )
    attempt.say(BAIT, "good 1", "::gpudeck progress=1/2")
    changes = follower.look()
    assert sorted(follower.hung) == [PROGRESS, WATCH, METRIC]
    assert changes["metrics"] == {"good": 1.0}
    attempt.say(BAIT, "good 2", "::gpudeck progress=2/2")
    changes = follower.look()
    assert (len(follower.hung), changes["metrics"], changes["share"]) == (3, {"good": 2.0}, 1.0)


def test_an_outsider_can_see_what_is_being_done(attempt: Attempt) -> None:
    attempt.say("x")
    follower = attempt.follow(pattern="x", metrics=[metric("a", regex="y")])
    attempt.busy.clear()
    follower.look()
    assert attempt.busy == [(7, 1), (0, 0), (7, METRIC), (0, 0), (7, WATCH), (0, 0)]


def test_the_limit_is_for_processor_time_and_is_lifted_afterwards() -> None:
    with pytest.raises(HungError):
        _compute_within(0.05)
    _compute(0.1)


def _compute(seconds: float) -> None:
    begin = time.process_time()
    while time.process_time() - begin < seconds:
        pass


def _compute_within(seconds: float) -> None:
    with limited_cpu(seconds):
        _compute(60.0)


def test_of_a_flood_of_frames_the_last_of_each_bar_tells(attempt: Attempt) -> None:
    train = [f"Train: {n:>3}%|█| {n}/100 [00:12<00:17]" for n in range(60)]
    valid = [f"Valid: {n:>3}%|█| {n}/100 [00:12<00:17]" for n in range(60)]
    lines = [*train, *valid, "epoch 1/2 loss 0.1", *train]
    assert telling(lines) == [train[-1], valid[-1], "epoch 1/2 loss 0.1", train[-1]]
    assert telling(train) == train


def test_hostile_bytes_are_read_without_harm(attempt: Attempt) -> None:
    attempt.out.write_bytes(bytes(range(256)) * 400 + b"\n\xff\xfe epoch 1/2\n" + b"\r" * 50_000)
    changes = attempt.follow(pattern="nan", metrics=[metric("x", regex=r"x=(\d+)")]).look()
    assert changes["line"].isprintable()


def test_the_last_line_is_short_and_printable(attempt: Attempt) -> None:
    attempt.say("\x1b]0;title\x07\x1b[1mloss\x1b[0m 0.1" + "x" * 5000)
    line = attempt.follow().look()["line"]
    assert (line[:8], len(line)) == ("loss 0.1", 200)


def test_the_end_that_a_program_promises_is_shown_where_nothing_better_is_known(attempt: Attempt) -> None:
    follower = attempt.follow(started_wall=time.time() - 3600)
    attempt.say("[11/20 10:00:00 d2.utils.events]:  eta: 3:00:47  iter: 1999  total_loss: 0.71  time: 0.3  lr: 0.02")
    changes = follower.look()
    left_s = changes["ends_at"] - time.clock_gettime(time.CLOCK_BOOTTIME)
    assert (changes["share"], left_s) == (pytest.approx(0.25, abs=0.01), pytest.approx(10847, abs=5))


@pytest.mark.parametrize(
    "line",
    [
        "Epoch: [0]  [ 120/5004]  eta: 0:12:34  lr: 0.1  loss: 6.9 (6.9)  time: 0.1544  data: 0.0002  max mem: 99",
        "Epoch(train)   [1][  50/7330]  lr: 1e-3  eta: 1:00:00  time: 0.4912  data_time: 0.01  loss: 2.1",
    ],
)
def test_the_end_of_an_epoch_is_not_taken_for_the_end_of_the_task(attempt: Attempt, line: str) -> None:
    follower = attempt.follow(started_wall=time.time() - 3600)
    attempt.say(line)
    assert {"share", "ends_at"}.isdisjoint(follower.look())


def test_an_end_that_is_far_beyond_the_epoch_is_that_of_the_task(attempt: Attempt) -> None:
    follower = attempt.follow(started_wall=time.time() - 3600)
    attempt.say(
        "Epoch(train)   [1][  50/7330]  lr: 1e-3  eta: 1 day, 1:00:00  time: 0.4912  data_time: 0.01  loss: 2.1"
    )
    left_s = follower.look()["ends_at"] - time.clock_gettime(time.CLOCK_BOOTTIME)
    assert left_s == pytest.approx(90000, abs=5)


def test_settings_at_the_head_of_a_long_log_tell_how_many_epochs_there_are(attempt: Attempt) -> None:
    """An engine that is started anew reads the end of it, and the head once."""
    attempt.say("Namespace(epochs=90, lr=0.1)", *["x" * 99] * 2000, "Epoch: [3][ 10/391]", "Epoch: [4][391/391]")
    assert attempt.follow().look()["share"] == pytest.approx(4 / 90, abs=0.001)


def test_a_pattern_with_a_total_counts_up_to_it(attempt: Attempt) -> None:
    attempt.say("iter 80:")
    assert attempt.follow(progress=r"iter (\d+):", total=5000).look()["share"] == 0.016


def test_a_number_alone_is_no_percentage_but_a_step_of_those_that_the_command_names(attempt: Attempt) -> None:
    attempt.say("iter 80:")
    assert "share" not in attempt.follow(progress=r"iter (\d+):").look()
    assert attempt.follow(progress=r"iter (\d+):", command="train --max_iters=5000").look()["share"] == 0.016


def test_points_of_progress_are_told_with_the_best_until_there(attempt: Attempt) -> None:
    points = {"metric": "loss:min", "name": "loss", "by": "min", "at": [0.25, 0.5, 0.75]}
    follower = attempt.follow(prune=points, metrics=[metric("loss", regex=r"loss (\S+)")])
    attempt.say("epoch 1/4 loss 0.5", "epoch 2/4 loss 0.7", "epoch 3/4 loss nan", "epoch 4/4 loss 0.1")
    follower.look()
    assert follower.points == [("loss:min", 0.25, 0.5), ("loss:min", 0.5, 0.5), ("loss:min", 0.75, None)]


def test_a_point_counts_what_the_other_log_said_until_then(attempt: Attempt) -> None:
    points = {"metric": "loss:min", "name": "loss", "by": "min", "at": [0.5]}
    loss = [metric("loss", regex=r"loss (\S+)")]
    follower = attempt.follow(prune=points, metrics=loss, started_wall=time.time() - 60)
    attempt.say(*(f"loss {loss}" for loss in (9, 8, 7, 6, 5, 4)))
    attempt.warn("".join(f"step {step}/6\n" for step in (1, 2, 3, 4, 5, 6)))
    follower.look()
    assert follower.points == [("loss:min", 0.5, 7.0)]


def test_a_point_that_is_passed_together_with_a_later_one_is_left_out(attempt: Attempt) -> None:
    points = {"metric": "loss:min", "name": "loss", "by": "min", "at": [0.25, 0.5, 0.75]}
    follower = attempt.follow(prune=points)
    attempt.say("::gpudeck progress=0.6 loss=3")
    follower.look()
    assert follower.points == [("loss:min", 0.5, 3.0)]
