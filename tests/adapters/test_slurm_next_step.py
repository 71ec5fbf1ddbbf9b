"""What to do next about a job: a table. All times are seconds of one clock; it is 1000 where nothing else is said."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpudeck.engine.core.inputs import LeaderExited, Pending, Spawned, Submitted, TreeGone
from tests.fakes.job_rig import order_in
from tests.inside.adapters import Began, Ended, Job, Kill, Limits, Seen, Stop, next_step

T, NOW = "a" * 24, 1000.0
BEGAN = Began("7", ("node1",), 0.0)
RUNS = {"stage": "running", "id": "7", "began": BEGAN, "claim": "7", "nodes": "node1"}
WAITS = {"stage": "waiting", "id": "7", "state": "PENDING", "reason": "Priority", "told": Pending(T, "Priority")}
GONE = {"absent": (900.0, 990.0), "accounted": True, "shown_gone": True}
SILENT = {"beat": 5.0, "beat_since": 800.0, "looked_at": 999.5}
OVER = {"over_since": 980.0, "state": "FAILED"}


def job_of(**what: Any) -> Job:
    """Of fields of a job, and of what was seen of it."""
    of_job = {key: value for key, value in what.items() if key in Job.__slots__}
    seen = {key: value for key, value in what.items() if key not in of_job}
    return Job(T, **{"seen": Seen(**seen), **of_job})


def step_of(job: Job, now: float = NOW) -> Any:
    return next_step(job, now, Limits(), "/logs/.jobs")


def never_ran(why: str = "") -> TreeGone:
    return TreeGone(T, NOW, never_ran=True, why=why)


def ended(code: int | None, at: float = 995.0, **more: Any) -> dict[str, Any]:
    return {"ended": Ended(code, 0.0, **more), "ended_at": at, "ended_since": at}


def exited(code: int | None, at: float = 995.0, **more: Any) -> LeaderExited:
    return LeaderExited(T, code, at, **more)


def stop(kill_at: float = 1030.0, **more: Any) -> dict[str, Any]:
    return {"stop": Stop(15, kill_at, **more)}


_LOST = "Slurm does not know it any more, and it wrote no exit code"
_NO_CODE = "Slurm says FAILED, and no exit code was written"

TABLE: dict[str, tuple[dict[str, Any], object]] = {
    # news
    "what waits for its turn waits": ({}, "wait"),
    "the queue shows it, though sbatch has not answered": (
        {"stage": "sending", "seen": Seen(id="7")}, Submitted(T, "7"),
    ),
    "its wrapper has begun": (
        {**WAITS, "began": BEGAN, "began_at": 990.0}, Spawned(T, at=990.0, nodes=("node1",), job="7"),
    ),
    "why it waits is another": ({**WAITS, "reason": "Resources"}, Pending(T, "Resources")),
    "why it waits is known": (WAITS, "wait"),
    "it will never start as it is": (
        {**WAITS, "reason": "InvalidQOS"}, Pending(T, "InvalidQOS: its QOS is not valid"),
    ),
    "what held it up is over": ({"stage": "waiting", "id": "7", "told": Pending(T, "full")}, Pending(T, "")),
    "one that is asked about waits for the answer": ({**RUNS, **OVER, "asked": True}, "wait"),
    # stops
    "one stopped before its turn never ran": (stop(), never_ran()),
    "one stopped while it waits: who makes its claim first decides": ({**WAITS, **stop()}, "claim"),
    "its claim is ours: it never ran": ({**WAITS, **stop(), "claim": "void"}, never_ran()),
    "its claim is the job's: its wrapper is told": ({**WAITS, **stop(), "claim": "7"}, Stop(15, 1030.0)),
    "one that runs is stopped by its wrapper": ({**RUNS, **stop()}, Stop(15, 1030.0)),
    "a wrapper gets its time": ({**RUNS, **stop(995.0, told=True)}, "wait"),
    "Slurm is asked where a wrapper does not stop it": ({**RUNS, **stop(980.0, told=True)}, "cancel"),
    "Slurm is asked once": (
        {**RUNS, **stop(900.0, told=True), "cancelled_at": 990.0, "listed_at": 999.0}, "wait",
    ),
    "Slurm is asked again while it stays": (
        {**RUNS, **stop(900.0, told=True), "cancelled_at": 950.0, "listed_at": 999.0}, "cancel",
    ),
    "another's job of the same number is not cancelled": (
        {**RUNS, **stop(900.0, told=True), "renumbered": True}, "wait",
    ),
    # ends that its wrapper wrote
    "a success is told at once": ({**RUNS, **ended(0)}, exited(0)),
    "a failure is told at once": ({**RUNS, **ended(3, by_itself=True)}, exited(3, by_itself=True)),
    "one whose beginning nobody saw is told to have begun": (
        {**WAITS, "claim": "7", **ended(0)}, Spawned(T, at=995.0, job="7"),
    ),
    "one that somebody killed waits for Slurm's word": ({**RUNS, **ended(137)}, "wait"),
    "one of whose log something was killed does so, too": ({**RUNS, **ended(1), "says_killed": True}, "wait"),
    "Slurm's word is there: its log may tell of memory": (
        {**RUNS, **ended(137), "state": "CANCELLED", "over_since": 999.0}, "look",
    ),
    "the log was looked at since": (
        {**RUNS, **ended(137), "state": "CANCELLED", "over_since": 999.0, "looked_at": 999.0},
        exited(137, cause="cancelled", detail="by scancel"),
    ),
    "the log tells of memory": (
        {**RUNS, **ended(1), "says_killed": True, **OVER, "looked_at": 999.0, "says_memory": True},
        exited(1, cause="oom", detail="host: more than the job asked for on node1"),
    ),
    "Slurm's word is not waited for for ever": (
        {**RUNS, **ended(137, at=980.0), "looked_at": 999.0}, exited(137, at=980.0),
    ),
    "one that we stopped asks Slurm nothing": ({**RUNS, **stop(), **ended(143)}, exited(143)),
    "Slurm's limit": (
        {**RUNS, **ended(0, signal="limit")}, exited(0, cause="timeout", detail="Slurm's time limit on node1"),
    ),
    "its folder could not be entered": (
        {**RUNS, **ended(None, error="spawn-cwd")}, exited(125, spawn_error="its folder cannot be entered on node1"),
    ),
    "a line of setup failed, as the log tells it": (
        {**RUNS, **ended(None, error="setup"), "why": "no module"}, exited(125, spawn_error="no module"),
    ),
    # Slurm says that it is over, and its wrapper nothing
    "it may not have begun": ({**WAITS, **OVER}, "claim"),
    "it has not": (
        {**WAITS, **OVER, "claim": "void", "nodes": "node1"},
        LeaderExited(
            T, 125, NOW, nodes=("node1",),
            spawn_error="its job began nothing (Slurm says FAILED): "
            "see its log, and whether /logs/.jobs is there on node1",
        ),
    ),
    "it was cancelled before it began": (
        {**WAITS, "over_since": 980.0, "state": "CANCELLED", "claim": "void"},
        LeaderExited(T, None, NOW, cause="cancelled", detail="by scancel"),
    ),
    "what it waited for has failed": (
        {**WAITS, **OVER, "claim": "void", "reason": "DependencyNeverSatisfied"},
        never_ran("what its job waited for has failed, and Slurm took it off the queue"),
    ),
    "it has begun: its heart is looked at": ({**RUNS, **OVER}, "look"),
    "no oftener than once a second": ({**RUNS, **OVER, "looked_at": 999.5, "beat": 5.0, "beat_since": 999.5}, "wait"),
    "it has not beaten for long": ({**RUNS, **OVER, **SILENT}, exited(None, NOW, detail=_NO_CODE)),
    "it beats": ({**RUNS, **OVER, **SILENT, "beat_since": 999.0, "goes_on": True}, Kill(
        "Slurm says FAILED of job 7, which goes on on node1: it is told to end, and waited for"
    )),
    "one that was told to end gets the longer time": (
        {**RUNS, **OVER, **SILENT, "beat_since": 950.0, "killed": True}, "wait",
    ),
    "its node has failed": (
        {**RUNS, "over_since": 980.0, "state": "NODE_FAIL", **SILENT},
        Kill("Slurm lost node1: what may run there is told to end, and waited for"),
    ),
    # the queue does not show it
    "the accounts are asked": ({**RUNS, "absent": (900.0, 900.0)}, "account"),
    "one look proves nothing": ({**RUNS, **GONE, "absent": (990.0, 990.0)}, "wait"),
    "the controller may have it": ({**RUNS, **GONE, "shown_gone": False}, "show"),
    "none has it: it may not have begun": ({**WAITS, **GONE}, "claim"),
    "Slurm has forgotten one that had not begun": (
        {**WAITS, **GONE, "claim": "void"}, never_ran("Slurm has forgotten job 7, which had not begun"),
    ),
    "an element that left an array which stays was cancelled": (
        {**WAITS, **GONE, "claim": "void", "array_stays": True},
        LeaderExited(T, None, NOW, cause="cancelled", detail="by scancel"),
    ),
    "one that runs is not lost while its heart beats": ({**RUNS, **GONE, **SILENT, "beat_since": 950.0}, "wait"),
    "before one is lost it is told to end": ({**RUNS, **GONE, **SILENT}, Kill("")),
    "it is lost": ({**RUNS, **GONE, **SILENT, "killed": True}, exited(None, NOW, detail=_LOST)),
    # submissions in doubt
    "it may be under way": ({"stage": "doubt", "absent": (990.0, 999.0)}, "wait"),
    "it is not under way any more": ({"stage": "doubt", "absent": (900.0, 999.0)}, "claim"),
    "there is no job of it": (
        {"stage": "doubt", "absent": (900.0, 999.0), "claim": "void"},
        never_ran("sbatch gave no answer, and Slurm has no job of it"),
    ),
    "the queue showed its end before sbatch was silent": ({"stage": "doubt", "row": "7", **OVER}, Submitted(T, "7")),
    "somebody has its claim and does not say who": ({"stage": "doubt", "claim": ""}, "look"),
    "he was gone before he ran anything": (
        {"stage": "doubt", "claim": "", **SILENT}, never_ran("its job ended before it began anything"),
    ),
    # what was given up
    "a job of what was given up may turn up": ({"stage": "void", "claim": "void"}, "wait"),
    "another job has its number by now": ({"stage": "void", "id": "7", "claim": "void", "renumbered": True}, "wait"),
    "it leaves the queue": ({"stage": "void", "id": "7", "claim": "void"}, "cancel"),
    "it is still there": (
        {"stage": "void", "id": "7", "claim": "void", "cancelled_at": 950.0, "listed_at": 999.0}, "cancel",
    ),
    "an old picture of the queue may not have it yet": (
        {"stage": "void", "id": "7", "claim": "void", "cancelled_at": 950.0, "absent": (920.0, 999.0)}, "wait",
    ),
    "it is out": (
        {"stage": "void", "id": "7", "claim": "void", "cancelled_at": 950.0, "absent": (900.0, 999.0)}, "forget",
    ),
    "a look from before it was cancelled says nothing": (
        {"stage": "void", "id": "7", "claim": "void", "cancelled_at": 950.0, "absent": (900.0, 940.0)}, "wait",
    ),
    "it is over": (
        {"stage": "void", "id": "7", "claim": "void", "cancelled_at": 950.0, "over_since": 960.0}, "forget",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", TABLE)
def test_the_next_step(name: str) -> None:
    what, step = TABLE[name]
    assert step_of(job_of(**what)) == step


def test_a_program_that_was_not_found_says_so_as_its_log_does(tmp_path: Path) -> None:
    job = job_of(**RUNS, **ended(127), why="no such command: trian", order=order_in(tmp_path))
    assert step_of(job) == exited(127, spawn_error="no such command: trian")


_WORDS = ("", "PENDING", "RUNNING", "COMPLETED", "FAILED", "CANCELLED", "NODE_FAIL", "TIMEOUT")
_TIMES = st.sampled_from([0.0, 900.0, 985.0, 999.5])
_MAYBE = st.none() | _TIMES
_JOBS = st.builds(
    Job,
    st.just(T),
    stage=st.sampled_from(["queued", "sending", "doubt", "waiting", "running", "gone", "void"]),
    id=st.sampled_from(["", "7"]),
    stop=st.none() | st.builds(Stop, st.just(15), _TIMES, told=st.booleans()),
    killed=st.booleans(),
    cancelled_at=_MAYBE,
    seen=st.builds(
        Seen,
        id=st.sampled_from(["", "7"]),
        state=st.sampled_from(_WORDS),
        over_since=_MAYBE,
        listed_at=_TIMES,
        absent=st.none() | st.just((900.0, 999.0)),
        accounted=st.booleans(),
        shown_gone=st.booleans(),
        claim=st.sampled_from([None, "", "7", "void"]),
        began=st.none() | st.just(BEGAN),
        ended=st.none() | st.builds(Ended, st.sampled_from([None, 0, 1, 137]), st.just(0.0)),
        ended_since=_TIMES,
        looked_at=_TIMES,
        beat=_MAYBE,
        beat_since=_TIMES,
        goes_on=st.booleans(),
    ),
)


def _take(job: Job, step: Any) -> None:
    """As the launcher does, but for what only it can find out."""
    match step:
        case Submitted():
            job.id, job.stage = step.job, "waiting" if job.stage in ("queued", "sending", "doubt") else job.stage
        case Spawned():
            job.stage = "running"
        case Pending():
            job.told = step
        case Kill():
            job.killed = True
        case Stop():
            step.told = True
        case "cancel":
            job.cancelled_at = float("inf")
        case "forget" | LeaderExited() | TreeGone():
            job.stage = "gone"
        case _:
            job.asked = True


@given(_JOBS)
def test_whatever_was_seen_a_few_steps_come_to_an_end(job: Job) -> None:
    steps = list[Any]()
    while (step := step_of(job)) != "wait":
        steps.append(step)
        _take(job, step)
        assert len(steps) < 10


@given(_JOBS)
def test_nothing_is_said_never_to_have_run_that_may_run(job: Job) -> None:
    """Either it was never submitted, or its claim is ours, or whoever had that has been silent for long."""
    step = step_of(job)
    if isinstance(step, TreeGone):
        seen = job.seen
        silent = job.stage == "doubt" and seen.claim == "" and seen.looked_at - seen.beat_since >= Limits().settle_s
        assert job.stage == "queued" or seen.claim == "void" or silent


@given(_JOBS)
def test_no_end_without_a_code_is_told_of_what_may_live(job: Job) -> None:
    """Its claim is ours, or it has not beaten for longer than one that cannot see its folder goes on."""
    step, seen = step_of(job), job.seen
    if isinstance(step, LeaderExited) and step.code is None:
        needed_s = Limits().settle_s if seen.over_since is not None and not job.killed else Limits().stale_s
        assert seen.claim == "void" or (seen.beat is not None and seen.looked_at - seen.beat_since >= needed_s)
