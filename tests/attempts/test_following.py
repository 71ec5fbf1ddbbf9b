"""Logs of running attempts, followed: progress, metrics, rules."""

from __future__ import annotations

import os
import signal
import time

import pytest

from gpudeck.engine.core.deck import Task
from gpudeck.engine.core.inputs import GpuReading, Progressed, Watched
from gpudeck.engine.core.spec import Metric, Progress, Watch
from tests.fakes.following_rig import PATIENCE_S, Rig, rigged, task
from tests.inside.attempts import NOTHING, Followed, RunningAttempt, WatchRules, helper

CATASTROPHE = "(a+a+)+c"
BAIT = "a" * 60 + "b"


@rigged(task("a"))
async def test_progress_is_seen_without_any_key(rig: Rig) -> None:
    token = rig.run("a")
    rig.say("a", "epoch 1/4 loss 0.5")
    await rig.until(lambda: rig.following.of(token).fraction == 0.25)
    assert rig.following.of(token).last_line == "epoch 1/4 loss 0.5"


@rigged(task("a"))
async def test_the_core_is_told_of_the_end_that_progress_promises(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(helper, "_MODULE", "tests.fakes.hasty_helper")
    token = rig.run("a")
    begun, done = time.monotonic(), 0
    while not rig.posted:
        done = int((time.monotonic() - begun) * 1000)
        line = f"epoch {done}/100000 loss 0.5"
        rig.say("a", line)
        await rig.until(lambda line=line: rig.posted or rig.following.of(token).last_line == line)
        assert done < 1000 * PATIENCE_S
    told = rig.posted[0]
    assert isinstance(told, Progressed)
    assert told.token == token
    assert told.eta_s == pytest.approx(100 - done / 1000, rel=0.5)


@rigged(task("a", metrics=(Metric("acc", regex=r"acc=(\S+)", best="max"),)))
async def test_metrics_are_seen_with_their_best(rig: Rig) -> None:
    token = rig.run("a")
    rig.say("a", "acc=0.9", "acc=0.8")
    await rig.until(lambda: rig.following.of(token).metrics)
    seen = rig.following.of(token)
    assert (seen.metrics, seen.best) == ({"acc": 0.8}, {"acc": 0.9})


@rigged(task("a", metrics=(Metric("acc", regex=r"acc=(\S+)"),)))
async def test_the_last_lines_are_read_when_an_attempt_has_ended(rig: Rig) -> None:
    token = rig.run("a")
    rig.say("a", "acc=0.1")
    await rig.until(lambda: rig.following.of(token).metrics)
    rig.say("a", "acc=0.2")
    told = rig.end(token)
    await rig.until(lambda: told)
    assert told[0].metrics == {"acc": 0.2}


@rigged(task("a", metrics=(Metric("acc", regex=r"acc=(\S+)"),)))
async def test_the_metrics_of_an_attempt_that_was_never_followed_are_read_at_its_end(rig: Rig) -> None:
    token = rig.run("a", ago_s=0.0)
    rig.say("a", "acc=0.2")
    told = rig.end(token)
    await rig.until(lambda: told)
    assert told[0].metrics == {"acc": 0.2}


@rigged(task("a"))
async def test_a_short_attempt_without_metrics_needs_no_helper(rig: Rig) -> None:
    assert rig.end(rig.run("a", ago_s=0.0)) == [NOTHING]
    assert rig.helper == 0


@rigged(task("a", metrics=(Metric("acc", regex=r"acc=(\S+)"),)))
async def test_the_end_of_the_engine_waits_for_the_last_lines(rig: Rig) -> None:
    token = rig.run("a")
    await rig.until(lambda: rig.following.of(token) != NOTHING or rig.helper)
    rig.say("a", "acc=0.2")
    await rig.until(lambda: rig.following.of(token).metrics)
    rig.say("a", "acc=0.3")
    told = rig.end(token)
    rig.following.close()
    assert told[0].metrics == {"acc": 0.3}


@rigged(task("a", metrics=(Metric("acc", regex=r"acc=(\S+)"),)))
async def test_an_end_after_the_logs_are_closed_waits_for_nothing(rig: Rig) -> None:
    token = rig.run("a")
    rig.following.close()
    assert rig.end(token) == [NOTHING]


@rigged(task("a", watch=Watch(pattern="nan", action="fail")))
async def test_a_pattern_whose_action_is_fail_stops_the_attempt(rig: Rig) -> None:
    token = rig.run("a")
    rig.say("a", "loss nan")
    await rig.until(lambda: rig.posted)
    assert rig.posted == [Watched(token, 'its output has "nan": loss nan')]


@rigged(task("a", watch=Watch(pattern="nan")))
async def test_a_pattern_whose_action_is_notify_is_told_once(rig: Rig) -> None:
    rig.run("a")
    rig.say("a", "loss nan")
    await rig.until(lambda: rig.notices)
    rig.say("a", "loss nan")
    os.kill(rig.helper, signal.SIGKILL)
    await rig.until(lambda: rig.helper == 0)
    await rig.until(lambda: rig.waits() or rig.helper)
    token = next(iter(rig.deck.active))
    rig.say("a", "epoch 1/2 loss nan")
    await rig.until(lambda: rig.following.of(token).fraction == 0.5)
    assert rig.notices == ['a: its output has "nan": loss nan']


@rigged(task("a", watch=Watch(silent_s=0.2, action="fail")))
async def test_silence_stops_the_attempt(rig: Rig) -> None:
    token = rig.run("a")
    rig.say("a", "hello")
    await rig.until(lambda: rig.posted)
    assert rig.posted == [Watched(token, "silent for 0.2 s; its last line: hello")]


@rigged(task("a", watch=Watch(log_size_mib=1, action="fail")))
async def test_logs_that_grow_beyond_what_a_rule_allows_stop_the_attempt(rig: Rig) -> None:
    token = rig.run("a")
    rig.say("a", "x" * (1 << 20))
    await rig.until(lambda: rig.posted)
    assert rig.posted == [Watched(token, "its logs have grown beyond 1.0 MiB")]


@rigged(task("a", progress=Progress(CATASTROPHE), metrics=(Metric("m", regex=r"m=(\d)"),)), task("b"))
async def test_a_pattern_that_hangs_is_given_up_with_one_warning(rig: Rig) -> None:
    token, other = rig.run("a"), rig.run("b")
    rig.say("a", BAIT, "m=1")
    await rig.until(lambda: rig.notices)
    rig.say("a", BAIT, "m=2")
    rig.say("b", "epoch 1/2 loss 0.1")
    await rig.until(lambda: rig.following.of(token).metrics == {"m": 2.0})
    await rig.until(lambda: rig.following.of(other).fraction == 0.5)
    again = rig.run("a")
    rig.say("a", BAIT, "m=3")
    await rig.until(lambda: rig.following.of(again).metrics == {"m": 3.0})
    assert rig.notices == [
        "a: its pattern for progress takes seconds for a line and is not used any more: make it simpler"
    ]


@rigged(task("a"))
async def test_an_attempt_that_vanishes_without_an_end_is_let_go(rig: Rig) -> None:
    token = rig.run("a")
    rig.say("a", "epoch 1/4 loss 0.5")
    await rig.until(lambda: rig.following.of(token).fraction)
    del rig.deck.active[token]

    def let_go() -> bool:
        rig.late_s += 1.5
        return rig.following.of(token) == NOTHING

    await rig.until(let_go)


@rigged(task("a", watch=Watch(silent_s=None)))
async def test_a_rule_that_an_edit_adds_is_followed_from_then_on(rig: Rig) -> None:
    token = rig.run("a")
    rig.say("a", "epoch 1/2 loss nan")
    await rig.until(lambda: rig.following.of(token).fraction)
    found: Task = rig.deck.by_name["a"]
    found.spec = task("a", watch=Watch(pattern="nan", action="fail"))
    await rig.until(lambda: rig.posted)
    assert isinstance(rig.posted[-1], Watched)


@rigged(task("a", watch=Watch(pattern="one")))
async def test_another_pattern_is_looked_for_though_the_first_was_found(rig: Rig) -> None:
    rig.run("a")
    rig.say("a", "one")
    await rig.until(lambda: rig.notices)
    rig.deck.by_name["a"].spec = task("a", watch=Watch(pattern="two"))
    rig.say("a", "two")
    await rig.until(lambda: len(rig.notices) == 2)
    assert rig.notices[1] == 'a: its output has "two": two'


@rigged(task("a"))
async def test_a_line_that_is_found_when_an_edit_has_taken_its_rule_away_is_told_to_nobody(rig: Rig) -> None:
    attempt = RunningAttempt("token", task("a"), rig.logs.paths("a", 1, False), 0.0)
    found = Followed(1, attempt, rig.deck.by_name["a"], task("a"))
    WatchRules(rig.posted.append, rig.notices.append).pattern(found, "loss nan")
    assert (rig.posted, rig.notices) == ([], [])


@rigged(task("a", metrics=(Metric("m", regex=r"m=(\d)", best="max"),)))
async def test_an_end_that_is_told_late_still_finds_what_was_seen(rig: Rig) -> None:
    token = rig.run("a")
    rig.say("a", "m=9", "m=1")
    await rig.until(lambda: rig.following.of(token).metrics)
    found = rig.deck.active.pop(token)
    await rig.turns()
    rig.late_s += 30.0
    await rig.turns()
    rig.deck.active[token] = found
    told = rig.end(token)
    await rig.until(lambda: told)
    assert told[0].best == {"m": 9.0}


@rigged(task("a", watch=Watch(idle_gpu_s=60.0, action="fail")))
async def test_gpus_that_stay_idle_stop_the_attempt_once(rig: Rig) -> None:
    token = rig.run("a", ago_s=0.0)
    for seconds, util in ((30, 0), (59, 0), (61, 0), (62, 0)):
        rig.late_s = seconds
        rig.following.sampled([GpuReading("GPU-0", rig.now(), util_percent=util)])
    assert rig.posted == [Watched(token, "its GPUs have been idle for 60 s")]


@rigged(task("a", watch=Watch(idle_gpu_s=60.0, idle_below=10, action="fail")))
async def test_gpus_that_compute_less_than_the_rule_allows_are_idle(rig: Rig) -> None:
    token = rig.run("a", ago_s=0.0)
    for seconds, util in ((30, 10), (89, 9), (95, 9)):
        rig.late_s = seconds
        rig.following.sampled([GpuReading("GPU-0", rig.now(), util_percent=util)])
    assert rig.posted == [Watched(token, "its GPUs have been idle (below 10 %) for 60 s")]


@pytest.mark.parametrize("util", [50, None])
@rigged(task("a", watch=Watch(idle_gpu_s=60.0, action="fail")))
async def test_gpus_that_compute_or_tell_nothing_are_not_idle(rig: Rig, util: int | None) -> None:
    rig.run("a", ago_s=0.0)
    for seconds in (50, 100):
        rig.late_s = seconds
        rig.following.sampled([GpuReading("GPU-0", rig.now(), util_percent=0 if seconds == 100 else util)])
    assert rig.posted == []


@rigged(task("a", metrics=(Metric("loss", regex=r"loss ([0-9.]+)"),)))
async def test_metrics_of_an_attempt_stay_until_the_next_has_ended(rig: Rig) -> None:
    first = rig.run("a")
    rig.say("a", "loss 0.5")
    told = rig.end(first)
    await rig.until(lambda: told)
    assert rig.following.last_metrics("a").metrics == {"loss": 0.5}
    told = rig.end(rig.run("a"))
    await rig.until(lambda: told)
    assert rig.following.last_metrics("a").metrics == {}
