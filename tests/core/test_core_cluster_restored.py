"""Jobs of a cluster under another engine, on another host, or with another file: what is known of them stays."""

from __future__ import annotations

from dataclasses import replace

import pytest
from core_cluster import cluster
from core_decks import changed_file
from core_restored import assert_restores
from core_world import spec

from gpudeck.engine.core.build import build
from gpudeck.engine.core.effects import Stop
from gpudeck.engine.core.explain import explain
from gpudeck.engine.core.reload import draft, kept_specs, swap


@pytest.mark.parametrize("reboot", [False, True])
def test_pending_and_running_jobs_go_on_under_another_engine(reboot: bool):
    found = cluster(spec("a"), spec("b"))
    found.begins("a")
    found.advance(100.0)
    found.restart(reboot=reboot)
    assert found.phases() == {"a": "running", "b": "starting"}
    found.end("a")
    found.end("b")
    assert found.phases() == {"a": "succeeded", "b": "succeeded"}
    assert found.task("a").ended[0].duration_s == 100.0
    assert_restores(found)


def test_a_timeout_goes_on_on_another_host():
    found = cluster(spec("a", timeout_s=150.0))
    found.begins("a")
    found.advance(100.0)
    found.restart(reboot=True)
    found.advance(49.0)
    assert found.phase("a") == "running"
    found.advance(1.0)
    assert [effect for effect in found.effects if isinstance(effect, Stop)]


def test_a_stop_that_was_under_way_goes_on_on_another_host():
    found = cluster(spec("a", grace_s=30.0))
    found.begins("a")
    found.verb("cancel", "a")
    found.advance(10.0)
    found.restart(reboot=True)
    assert [effect.grace_s for effect in found.effects if isinstance(effect, Stop)] == [30.0, 20.0]


def test_a_job_id_and_a_beginning_that_did_not_reach_the_disk_are_found_out_again():
    found = cluster(spec("a"))
    found.advance(50.0)
    found.begins("a", ago_s=10.0)
    found.lose_the_last_facts()
    found.advance(10.0)
    found.restart()
    attempt = found.task("a").attempt()
    assert attempt is not None
    assert (found.phase("a"), attempt.job, found.now - attempt.at) == ("running", "100", 20.0)


def test_a_job_that_the_file_no_longer_wants_is_known_by_where_it_ran():
    found = cluster(spec("a"), spec("b"))
    found.begins("a", nodes=("n7",))
    found.end("a")
    fewer = replace(found.file, tasks=found.file.tasks[1:])
    found.restart(file=fewer)
    (ended,) = found.deck.past.ended["a"]
    assert (ended.job, ended.nodes) == ("100", ("n7",))


def test_a_job_that_was_cancelled_before_it_began_is_known_when_the_file_no_longer_wants_it():
    found = cluster(spec("a"), spec("b"))
    found.verb("cancel", "a")
    found.restart(file=replace(found.file, tasks=found.file.tasks[1:]))
    (ended,) = found.deck.past.ended["a"]
    assert (ended.job, ended.nodes) == ("100", ())


def test_a_timeout_that_the_file_changed_counts_from_the_beginning():
    found = cluster(spec("a", timeout_s=100.0))
    found.restart(file=changed_file(found.file, "a", timeout_s=40.0))
    found.advance(200.0)
    assert found.phase("a") == "starting"


def test_an_edited_file_keeps_what_is_known_of_pending_jobs_and_brings_its_own_limit():
    found = cluster(spec("a"), spec("b"), spec("c"), jobs=2)
    found.waits("a", "Priority")
    file = replace(found.file, settings=replace(found.file.settings, max_submitted=1))
    new = build(file, gpus=(), cores=1)
    draft(found.deck, new, found.facts)
    swap(found.core, new, (), kept_specs(found.deck, new), found.now)
    assert [obstacle.text for obstacle in explain(found.deck, found.task("a"), found.now)] == ["Slurm: Priority"]
    found.end("b")
    assert found.phases() == {"a": "starting", "b": "succeeded", "c": "queued"}
