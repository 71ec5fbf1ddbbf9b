"""How jobs of a cluster end: what the cluster says of it, what comes next, which nodes are left out afterwards."""

from __future__ import annotations

import pytest
from core_cluster import Cluster, cluster
from core_restored import assert_restores
from core_world import spec

from gpudeck.engine.core import events as e
from gpudeck.engine.core import inputs as i
from gpudeck.engine.core.effects import Examine, Stop
from gpudeck.engine.core.events import Cause
from gpudeck.engine.core.phases import Cancelled
from gpudeck.engine.core.spec import Policy, Resume


def last(found: Cluster, name: str = "a") -> e.Outcome:
    return found.task(name).ended[-1].outcome


def begun(**said: object) -> Cluster:
    found = cluster(spec("a", **said))
    found.begins("a", nodes=("n1", "n2"))
    found.advance(100.0)
    return found


@pytest.mark.parametrize(
    ("cause", "reason"),
    [
        ("timeout", "timeout"),
        ("oom", "oom"),
        ("preempted", "preempted"),
        ("node_fail", "node_fail"),
        ("cancelled", "cancelled"),
        ("launch", "spawn error"),
    ],
)
def test_what_the_cluster_says_of_an_end_is_its_reason(cause: Cause, reason: str):
    found = begun()
    found.ends("a", None, cause)
    assert last(found).reason == reason
    assert not [effect for effect in found.effects if isinstance(effect, Examine)]
    assert_restores(found)


@pytest.mark.parametrize("cause", ["timeout", "oom", "preempted", "node_fail", "cancelled", "launch"])
def test_the_clusters_own_words_of_an_end_are_kept(cause: Cause):
    found = begun()
    found.ends("a", 1, cause, "as it says")
    assert last(found).detail == "as it says"


def test_a_job_that_reached_its_limit_has_not_succeeded_whatever_its_exit_code():
    found = begun()
    found.ends("a", 0, "timeout")
    assert found.phase("a") == "failed"


def test_a_job_that_succeeded_is_not_out_of_memory_because_some_process_of_it_was():
    found = begun()
    found.ends("a", 0, "oom")
    assert found.phase("a") == "succeeded"


def test_an_end_of_which_the_cluster_says_nothing_is_judged_by_its_code_and_logs():
    found = begun()
    found.end("a", 3)
    assert last(found) == e.Outcome("exit", 3)


def test_a_job_that_is_gone_without_a_trace_is_lost():
    found = begun()
    found.ends("a", None, "")
    assert last(found).reason == "lost"


# -- what comes next --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cause", ["timeout", "oom"])
def test_limits_that_a_job_ran_into_use_a_retry(cause: Cause):
    found = begun(retries=1)
    found.ends("a", None, cause)
    assert (found.phase("a"), found.task("a").retries_used) == ("backoff", 1)
    assert_restores(found)


@pytest.mark.parametrize("word", ["preempted", "node_fail"])
def test_what_the_cluster_took_away_is_tried_again_without_any_retries(word: Cause):
    found = begun()
    found.ends("a", None, word)
    assert (found.phase("a"), found.task("a").retries_used) == ("backoff", 0)
    assert_restores(found)


@pytest.mark.parametrize("word", ["preempted", "node_fail"])
def test_retry_on_names_them_one_by_one(word: Cause):
    wanted, others = frozenset({word}), Policy().retry_on - {word}
    for retry_on, phase in ((wanted, "backoff"), (others, "failed")):
        found = begun(retries=1, retry_on=retry_on)
        found.ends("a", None, word)
        assert found.phase("a") == phase


def test_a_job_is_preempted_as_often_as_it_may_be_and_never_waits_for_long():
    found = begun()
    for _ in range(20):
        found.ends("a", None, "preempted")
        assert found.phase("a") == "backoff"
        found.advance(15.0)
    assert len(found.launched) == 21


def test_a_command_that_takes_its_nodes_down_does_not_go_through_all_of_them():
    found = begun()
    for number in range(6):
        found.ends("a", None, "node_fail")
        found.advance(15.0)
        if number < 5:
            found.begins("a", nodes=(f"n{number}",))
    assert (found.phase("a"), len(found.launched)) == ("failed", 6)
    assert_restores(found)


def test_a_chain_of_time_limits_does_not_wait_longer_each_time():
    found = cluster(spec("a", retries=20, backoff_s=10.0, resume=Resume("again", ())))
    for _ in range(10):
        found.begins("a")
        found.advance(3600.0)
        found.ends("a", None, "timeout")
        found.advance(15.0)
    assert (found.phase("a"), len(found.launched)) == ("starting", 11)
    for wait_s in (15.0, 30.0):  # what fails in between does
        found.end("a", 1)
        assert found.phase("a") == "backoff"
        found.advance(wait_s)
        assert found.phase("a") == "starting"
    found.end("a", 1)
    found.advance(30.0)
    assert found.phase("a") == "backoff"


def test_a_job_that_could_not_be_launched_nobody_knows_where_is_not_tried_again():
    found = begun(retries=3)
    found.ends("a", None, "launch")
    assert found.phase("a") == "failed"


# -- nodes that run nothing -------------------------------------------------------------------------------------------


def test_a_broken_node_costs_tasks_no_attempt_of_theirs_and_is_avoided_by_all_of_their_entry():
    found = cluster(*[spec(f"t{number}", entry="t") for number in range(4)], jobs=2)
    found.begins_nothing("t0", "n2")
    found.begins_nothing("t1", "n2")
    for name in ("t0", "t1"):
        task = found.task(name)
        assert (found.phase(name), task.retries_used, task.avoid_nodes) == ("backoff", 0, {"n2"})
    assert found.task("t3").entry.failed_starts == {"n2"}
    assert_restores(found)


def test_a_folder_that_no_node_sees_fails_the_task_after_the_second_node():
    found = cluster(spec("a"))
    found.begins_nothing("a", "n1")
    found.advance(15.0)
    found.begins_nothing("a", "n2")
    assert (found.phase("a"), last(found).detail) == ("failed", "its job began nothing")


def test_a_task_is_not_sent_to_the_same_broken_node_again_and_again():
    found = cluster(spec("a"))
    found.begins_nothing("a", "n1")
    found.advance(15.0)
    found.begins_nothing("a", "n1")
    assert found.phase("a") == "failed"


def test_a_node_without_the_program_takes_no_retry_where_another_has_it():
    found = cluster(*[spec(f"t{number}", entry="t") for number in range(6)], jobs=6)
    for number in (0, 1, 2):
        found.misses_its_program(f"t{number}", "n2")
    found.misses_its_program("t3", "n3")
    assert found.phase("t3") == "failed", "missing on two nodes, and nowhere there"
    found.begins("t4", nodes=("n1",))
    found.advance(6.0)
    found.misses_its_program("t5", "n3")
    assert [found.phase(f"t{number}") for number in (0, 1, 2, 5)] == ["backoff"] * 4
    assert_restores(found)


def test_a_program_that_is_nowhere_fails_as_ever_on_the_second_node():
    found = cluster(spec("a", retries=1))
    found.misses_its_program("a", "n1")
    assert found.task("a").retries_used == 0
    found.advance(15.0)
    found.misses_its_program("a", "n2")
    assert found.task("a").retries_used == 1
    found.advance(30.0)
    found.misses_its_program("a", "n3")
    assert found.phase("a") == "failed"
    assert_restores(found)


def test_a_task_whose_program_was_not_on_its_node_has_nothing_to_resume():
    found = cluster(spec("a", resume=Resume("again", ())))
    found.misses_its_program("a", "n1")
    found.advance(15.0)
    assert [launch.may_resume for launch in found.launched] == [False, False]


def test_a_code_of_127_after_an_hour_is_the_commands_own():
    found = cluster(spec("a"))
    found.begins("a", nodes=("n1",))
    found.advance(3600.0)
    found.end("a", 127)
    assert (found.phase("a"), found.task("a").avoid_nodes) == ("failed", frozenset())


def test_a_node_on_which_a_task_does_well_again_is_not_avoided_any_more():
    found = cluster(spec("a", entry="t"), spec("b", entry="t"))
    found.misses_its_program("a", "n1")
    found.begins("b", nodes=("n1",))
    found.end("b", 0)
    assert found.task("a").entry.failed_starts == set()


def test_a_ladder_of_out_of_memory_ends_goes_on_on_a_cluster():
    found = cluster(spec("a", ladder=(spec("x").work,)))
    found.ends("a", None, "oom")
    assert [launch.rung for launch in found.launched] == [0, 1]


def test_a_task_that_was_preempted_may_resume():
    found = begun(retries=1, resume=Resume("again", ()))
    found.ends("a", None, "preempted")
    found.advance(15.0)
    assert [launch.may_resume for launch in found.launched] == [False, True]


def test_a_task_that_never_began_has_nothing_to_resume():
    found = cluster(spec("a", retries=1, resume=Resume("again", ())))
    found.ends("a", None, "node_fail")
    found.advance(15.0)
    assert [launch.may_resume for launch in found.launched] == [False, False]


def test_ends_that_the_cluster_caused_speak_against_no_command():
    found = cluster(*[spec(f"t{number}") for number in range(3)], jobs=3)
    found.ends("t0", None, "preempted")
    found.ends("t1", None, "node_fail")
    assert found.task("t0").entry.fast_failures == 0
    found.end("t2", 1)
    assert found.task("t0").entry.fast_failures == 1


# -- nodes that failed ------------------------------------------------------------------------------------------------


def test_nodes_that_failed_under_a_task_are_left_out_of_its_next_attempts():
    found = begun()
    found.ends("a", None, "node_fail")
    found.advance(15.0)
    found.begins("a", nodes=("n3",))
    found.ends("a", None, "node_fail")
    assert found.task("a").avoid_nodes == {"n1", "n2", "n3"}
    assert_restores(found)


def test_nodes_that_failed_are_tried_again_when_the_user_retries():
    found = begun()
    found.ends("a", None, "node_fail")
    found.verb("retry", "a")
    assert found.task("a").avoid_nodes == frozenset()


@pytest.mark.parametrize("cause", ["preempted", "timeout", "oom"])
def test_nodes_of_other_ends_are_not_left_out(cause: Cause):
    found = begun(retries=1)
    found.ends("a", None, cause)
    assert found.task("a").avoid_nodes == frozenset()


# -- cancelled, here or there -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("begins", [False, True])
def test_a_job_that_somebody_else_cancelled_is_cancelled(begins: bool):
    found = cluster(spec("a", retries=3))
    if begins:
        found.begins("a")
    found.ends("a", None, "cancelled", "by scancel")
    assert found.task("a").phase == Cancelled("scancel")
    assert_restores(found)


def test_a_task_cancelled_while_its_job_is_pending_ends_cancelled_and_took_no_time():
    found = cluster(spec("a", retries=3))
    found.advance(300.0)
    found.verb("cancel", "a", by="alice")
    (fact,) = found.of(e.AttemptEnded)
    assert isinstance(fact, e.AttemptEnded)
    assert (fact.outcome.reason, fact.never_ran, fact.duration_s) == ("cancelled", True, 0.0)
    assert found.task("a").phase == Cancelled("alice")


def test_a_task_cancelled_as_its_job_begins_ends_cancelled():
    found = cluster(spec("a"))
    token = found.proc("a").token
    found.jobs[token].began_wall = found.wall
    found.give(i.Verb("cancel", ("a",)), i.Spawned(token, at=found.now, nodes=("n1",), job="100"))
    assert found.phase("a") == "stopping"
    found.advance(30.0)
    assert (found.phase("a"), found.task("a").ended[0].nodes) == ("cancelled", ("n1",))


def test_a_stopped_job_is_cancelled_although_the_nodes_clock_is_behind():
    found = begun()
    found.verb("cancel", "a")
    found.ends("a", 143, "", ago_s=4.0)
    assert found.phase("a") == "cancelled"


def test_a_job_that_had_succeeded_before_it_was_cancelled_has_succeeded():
    found = begun()
    found.verb("cancel", "a")
    found.ends("a", 0, "", ago_s=4.0)
    assert found.phase("a") == "succeeded"


def test_a_job_that_succeeds_while_its_stop_is_on_its_way_has_succeeded():
    found = begun()
    found.give(i.Shutdown(now=False, by="TERM"))
    found.advance(1.0)
    found.succeeds_by_itself("a")
    assert found.phase("a") == "succeeded"


def test_pending_jobs_are_withdrawn_when_the_engine_stops_its_tasks_and_come_again():
    found = cluster(spec("a"))
    found.give(i.Shutdown(now=False, by="INT"))
    assert [type(effect) for effect in found.effects if isinstance(effect, Stop)] == [Stop]
    assert found.phase("a") == "queued"
    found.restart()
    assert (found.phase("a"), found.task("a").attempts, found.task("a").retries_used) == ("starting", 2, 0)


def test_a_submission_that_came_to_nothing_is_tried_again_after_a_while_and_is_no_attempt():
    found = cluster(spec("a"))
    proc = found.proc("a")
    proc.leader = proc.tree = False
    found.give(i.TreeGone(proc.token, found.now, never_ran=True, why="sbatch did not answer"))
    assert (found.phase("a"), found.task("a").ended) == ("queued", ())
    found.advance(2.0)
    assert found.phase("a") == "starting"
    assert len({launch.token for launch in found.launched}) == 2


def test_a_submission_that_is_refused_for_good_is_a_spawn_error():
    found = cluster(spec("a", retries=3))
    proc = found.proc("a")
    proc.leader = proc.tree = False
    found.give(
        i.LeaderExited(proc.token, None, found.now, spawn_error="Invalid partition name specified"),
        i.TreeGone(proc.token, found.now),
    )
    assert (found.phase("a"), last(found).reason) == ("failed", "spawn error")
    assert found.task("a").ended[0].duration_s == 0.0


def test_what_lives_on_after_its_node_was_said_to_have_failed_keeps_its_slot():
    found = cluster(spec("a", retries=1), spec("b"), jobs=1)
    found.begins("a")
    proc = found.proc("a")
    proc.leader = False
    found.give(i.LeaderExited(proc.token, None, found.now, cause="node_fail", detail="n1 failed"))
    assert found.phases() == {"a": "closing", "b": "queued"}
    found.advance(5.0)
    found.tree_goes(proc)
    found.settle()
    assert found.phases() == {"a": "backoff", "b": "starting"}
