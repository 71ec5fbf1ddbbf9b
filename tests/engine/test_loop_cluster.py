"""The loop and a cluster: a start that is on its way, and what the journal has of it."""

from __future__ import annotations

from gpudeck.engine.core.events import AttemptEnded, AttemptRunning, AttemptStarting, AttemptSubmitted
from gpudeck.engine.core.inputs import TreeGone, Verb
from gpudeck.engine.core.phases import Cancelled, Queued, Running, Starting, Succeeded
from tests.fakes.loop_rig import LoopRig, looped, task


@looped(task("a"), task("b"), task("c"), jobs=2)
async def test_as_many_starts_as_jobs_are_allowed_are_handed_over(rig: LoopRig) -> None:
    rig.begin()
    await rig.settle()
    assert rig.started == ["a", "b"]
    assert isinstance(rig["c"].phase, Queued)


@looped(task("a"), jobs=2)
async def test_a_start_that_is_on_its_way_is_starting_until_the_cluster_begins_it(rig: LoopRig) -> None:
    rig.begin()
    await rig.settle()
    rig.launcher.take(rig.token("a"), "7")
    await rig.later(100.0)
    assert isinstance(rig["a"].phase, Starting)
    rig.launcher.begin(rig.token("a"), "7", "n1")
    await rig.settle()
    assert isinstance(rig["a"].phase, Running)


@looped(task("a"), jobs=2)
async def test_the_journal_has_where_an_attempt_is_its_job_and_its_beginning(rig: LoopRig) -> None:
    rig.begin()
    await rig.settle()
    rig.launcher.take(rig.token("a"), "7")
    await rig.later(100.0)
    rig.launcher.begin(rig.token("a"), "7", "n1", "n2")
    await rig.settle()
    (start,), (taken,), (began,) = map(rig.facts, (AttemptStarting, AttemptSubmitted, AttemptRunning))
    now = rig.clock.now()
    assert (start.where, start.gpus, taken.job) == ("slurm", (), "7")
    assert (began.job, began.nodes, began.at, began.wall) == ("7", ("n1", "n2"), now.boot_s, now.wall_s)


@looped(task("a"), jobs=2)
async def test_a_job_id_is_written_without_waiting_for_it(rig: LoopRig) -> None:
    rig.begin()
    await rig.settle()
    before = rig.journal.durable_appends
    rig.launcher.take(rig.token("a"), "7")
    await rig.settle()
    assert rig.facts(AttemptSubmitted)
    assert rig.journal.durable_appends == before


@looped(task("a"), jobs=2)
async def test_a_job_lasts_from_its_beginning_to_its_end(rig: LoopRig) -> None:
    rig.begin()
    await rig.settle()
    await rig.later(100.0)
    rig.launcher.begin(rig.token("a"), "7", "n1")
    await rig.later(30.0)
    rig.launcher.end(rig.token("a"))
    await rig.settle()
    assert isinstance(rig["a"].phase, Succeeded)
    assert [fact.duration_s for fact in rig.facts(AttemptEnded)] == [30.0]


@looped(task("a"), jobs=2)
async def test_a_job_withdrawn_before_it_began_is_cancelled(rig: LoopRig) -> None:
    rig.begin()
    await rig.settle()
    rig.launcher.take(rig.token("a"), "7")
    rig.loop.post(Verb("cancel", ("a",)))
    await rig.settle()
    assert [stopped.token for stopped in rig.launcher.stops] == [rig.token("a")]
    rig.loop.post(TreeGone(rig.token("a"), rig.clock.boot_s, never_ran=True))
    await rig.settle()
    assert isinstance(rig["a"].phase, Cancelled)
