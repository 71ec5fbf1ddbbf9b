"""What a journal says by itself."""

from __future__ import annotations

from gpudeck.engine.core import events as e
from gpudeck.engine.core.recorded import recorded


def start(attempt: int, token: str, *gpus: str) -> e.AttemptStarting:
    return e.AttemptStarting("a", attempt, token, "f", gpus, 1, 0, 1.0, 1.0)


def end(attempt: int) -> e.AttemptEnded:
    return e.AttemptEnded("a", attempt, e.Outcome("exit", 1), 2.0, 2.0, 1.0, "queued")


def test_an_attempt_lasts_until_its_end_or_until_its_start_is_taken_back() -> None:
    assert recorded([start(1, "one")]).lasting_tokens == {"one"}
    assert not recorded([start(1, "one"), end(1)]).lasting
    assert not recorded([start(1, "one"), e.StartRevoked("a", 1, "disk full", 3.0)]).lasting


def test_a_start_that_was_taken_back_gives_its_number_to_the_next() -> None:
    revoked = [start(1, "one"), e.StartRevoked("a", 1, "disk full", 3.0)]
    assert recorded(revoked).is_over(("a", 1))
    again = recorded([*revoked, start(1, "two")])
    assert (again.is_over(("a", 1)), again.lasting_tokens, again.tokens) == (False, {"two"}, {"one", "two"})


def test_a_later_attempt_proves_that_the_one_before_has_ended_although_its_end_was_lost() -> None:
    assert recorded([start(1, "one"), start(2, "two")]).lasting_tokens == {"two"}
    assert not recorded([start(1, "one"), start(2, "two"), end(2)]).lasting


def test_of_runs_the_newest_counts_with_the_options_that_hold() -> None:
    facts: list[e.Fact] = [e.RunStarted(1, "s", 0.0, 0.0, options="one"), e.RunEnded(1, 1.0, 1.0)]
    assert (recorded(facts).run, recorded(facts).unfinished, recorded(facts).options) == (1, False, "one")
    facts += [e.RunStarted(2, "s", 2.0, 2.0, options="two"), e.OptionsChanged("three")]
    assert (recorded(facts).run, recorded(facts).unfinished, recorded(facts).options) == (2, True, "three")


def test_simulated_gpus_are_no_real_ones() -> None:
    assert not recorded([start(1, "one", "SIM-0")]).ran_on_gpus
    assert recorded([start(1, "one", "SIM-0"), start(2, "two", "GPU-5f2a")]).ran_on_gpus


def test_the_newest_number_of_shards_holds() -> None:
    assert recorded([e.ShardsFixed("x", 2), e.ShardsFixed("x", 4)]).shards == {"x": 4}


def test_the_newest_job_id_of_an_attempt_counts_and_goes_with_a_start_that_was_taken_back() -> None:
    facts: list[e.Fact] = [start(1, "one"), e.AttemptSubmitted("a", 1, "7"), e.AttemptRunning("a", 1, 0, 0, job="8")]
    assert recorded(facts).jobs == {("a", 1): "8"}
    assert recorded([start(1, "one"), e.AttemptRunning("a", 1, 5, 6)]).jobs == {}
    assert recorded([*facts, e.StartRevoked("a", 1, "no answer", 3.0)]).jobs == {}
