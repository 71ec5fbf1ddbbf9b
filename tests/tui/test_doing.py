"""What an action on tasks asks of the engine, and what it asks of the user first."""

from __future__ import annotations

from typing import get_args

import pytest

from gpudeck.engine.protocol.verbs import ACTS
from gpudeck.engine.protocol.wire import GpuRow, State, TaskRow
from tests.inside.tui import Doing, Question, Refusal, Request, doing


def row(name: str, state: State, **more: object) -> TaskRow:
    return TaskRow(index=0, name=name, entry="e", state=state, **more)  # pyright: ignore[reportArgumentType]


def asked(what: Doing) -> Question:
    assert isinstance(what, Question), what
    return what


def request(what: object) -> tuple[str, dict[str, object]]:
    assert isinstance(what, Request), what
    return what.op, dict(what.args)


ENDED = [row("a", "failed", kind="oom", gpus=(2,)), row("b", "cancelled"), row("c", "succeeded"), row("d", "unknown")]


def test_retry_takes_what_failed_was_cancelled_or_is_unknown() -> None:
    assert request(doing.retry(ENDED)) == ("retry", {"tasks": ["a", "b", "d"]})


def test_cancel_of_what_waits_asks_nothing() -> None:
    assert request(doing.cancel([row("a", "queued"), row("b", "backoff")])) == ("cancel", {"tasks": ["a", "b"]})


def test_a_dialog_names_the_tasks_it_acts_on() -> None:
    question = asked(doing.kill([row(f"t{n}", "running") for n in range(12)]))
    assert "12 tasks" in question.title
    assert "  t0" in question.lines
    assert question.lines[-1] == "  and 4 more"


def test_what_does_not_run_cannot_be_killed_and_that_is_said() -> None:
    what = doing.kill([row("a", "cached"), row("b", "failed")])
    assert isinstance(what, Refusal)
    assert what.text == "a was done earlier (and 1 more like it): only what has not ended can be killed"


def test_of_a_halted_run_it_is_asked_whether_it_goes_on() -> None:
    question = asked(doing.pause("", "train-1"))
    assert (question.title, "train-1 failed" in question.lines[0]) == ("Go on with the halted run?", True)
    assert [request(question.then(answer.id)) for answer in question.answers if "P" in answer.key] == [("unpause", {})]


def test_no_answer_does_nothing() -> None:
    rows = [row("a", "running")]
    for what in (
        doing.cancel(rows),
        doing.kill(rows),
        doing.pause("", ""),
        doing.pause("", "train-1"),
        doing.stop(3),
        doing.apply(["1 added"], "d", finished=True, running=False),
    ):
        question = asked(what)
        assert question.then(question.answers[0].id) is None
        assert not question.answers[0].grave


def test_hold_holds_unless_all_are_held() -> None:
    held, free = row("a", "queued", held=True), row("b", "queued")
    assert request(doing.hold([held, free])) == ("hold", {"tasks": ["b"]})
    assert request(doing.hold([held])) == ("release", {"tasks": ["a"]})


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([row("a", "queued")], "a held: it does not start until H releases it"),
        ([row("a", "queued"), row("b", "waiting")], "2 tasks held: none starts until H releases it"),
        ([row("a", "running")], "a held: it runs on, no other attempt starts until H releases it"),
    ],
)
def test_what_a_hold_comes_to_is_said(rows: list[TaskRow], said: str) -> None:
    held = doing.hold(rows)
    assert isinstance(held, Request)
    assert held.done == said


def test_of_several_only_those_that_have_not_ended_are_held() -> None:
    assert request(doing.hold([row("a", "failed"), row("b", "queued")])) == ("hold", {"tasks": ["b"]})


@pytest.mark.parametrize("verb", ["cancel", "kill", "hold", "release", "priority"])
@pytest.mark.parametrize("held", [False, True], ids=["free", "held"])
def test_a_key_means_the_tasks_that_the_command_means(verb: str, held: bool) -> None:
    acts = {"cancel": doing.cancel, "kill": doing.kill, "hold": doing.hold, "release": doing.hold}
    for state in get_args(State):
        one = row("a", state, held=held)
        if verb == ("hold" if held else "release"):
            continue  # the same key, which does the other
        what = doing.priority([one], 1, {}) if verb == "priority" else acts[verb]([one])
        assert isinstance(what, Refusal) == (not ACTS[verb].may(one)), state


def test_the_plan_that_was_shown_is_the_one_that_is_applied() -> None:
    question = doing.apply(["added  b: they start when they can"], "abc", finished=True, running=True)
    assert question.lines == ("added  b: they start when they can",)
    assert request(question.then("apply")) == ("apply", {"digest": "abc"})
    assert request(question.then("keep")) == ("apply", {"digest": "abc", "finished": "keep"})
    assert request(question.then("restart")) == ("apply", {"digest": "abc", "running": "restart"})


def test_a_plan_names_the_key_that_keeps_results_not_the_flag_of_the_command() -> None:
    line = "changed, finished     a (command): they run again, unless their results are kept (--keep)"
    question = doing.apply([line], "abc", finished=True, running=False)
    assert question.lines[0].endswith("unless their results are kept ([e])")
    assert next(answer.key for answer in question.answers if answer.id == "keep") == "e"


@pytest.mark.parametrize(
    ("state", "said"), [("succeeded", "a has succeeded"), ("running", "a is running"), ("cached", "a was done earlier")]
)
def test_a_retry_of_what_did_not_fail_says_how_it_stands(state: State, said: str) -> None:
    what = doing.retry([row("a", state)])
    assert isinstance(what, Refusal)
    assert what.text == f"{said}: r retries what failed, was cancelled, pruned or unknown; R has more"


def test_only_what_runs_of_a_retry_can_be_cancelled_instead_of_taken_back() -> None:
    assert doing.cancel_started([row("a", "failed")]) is None
    question = doing.cancel_started([row("a", "running"), row("b", "failed")])
    assert question is not None
    assert request(question.then("cancel")) == ("cancel", {"tasks": ["a"]})


def test_what_all_that_failed_is_asked_to_do_is_said_in_whole_words() -> None:
    made = asked(doing.retry_menu(ENDED, [])).then("all")
    assert isinstance(made, Request)
    assert made.done == "2 tasks run again"


def test_the_retry_menu_counts_failures_by_kind_and_gpu() -> None:
    rows = [*ENDED, row("e", "failed", kind="exit", gpus=(2,)), row("f", "failed", kind="exit", gpus=(3,))]
    question = asked(doing.retry_menu(rows, [rows[0]]))
    labels = {answer.id: answer.label for answer in question.answers}
    assert labels["all"] == "4 that failed, for whatever reason"
    assert (labels["kind exit"], labels["kind oom"]) == ("2 that exited with an error", "1 that ran out of memory")
    assert labels["gpu 2"] == "2 that failed on GPU 2, on another GPU"
    assert request(question.then("gpu 2")) == ("retry", {"tasks": ["a", "e"], "not_on": ["2"]})
    assert request(question.then("debug"))[1]["env"] == {"NCCL_DEBUG": "INFO", "TORCH_DISTRIBUTED_DEBUG": "DETAIL"}
    assert next(answer.key for answer in question.answers if answer.id == "debug") == "d"
    assert request(question.then("fresh")) == ("retry", {"tasks": ["a"], "fresh": True})


def test_where_there_is_one_gpu_no_retry_on_another_is_offered() -> None:
    failed = row("a", "failed", kind="exit", gpus=(0,))
    assert "gpu 0" not in [answer.id for answer in asked(doing.retry_menu([failed], [], gpus=1)).answers]


def test_a_retry_with_debug_output_of_what_cuda_told_late_waits_for_each_call() -> None:
    failed = row("a", "failed", reason="exit 1: RuntimeError: CUDA error: device-side assert triggered", gpus=(0,))
    question = asked(doing.retry_menu([failed], [failed]))
    env = {"NCCL_DEBUG": "INFO", "TORCH_DISTRIBUTED_DEBUG": "DETAIL", "CUDA_LAUNCH_BLOCKING": "1"}
    assert request(question.then("debug"))[1]["env"] == env


def test_a_retry_with_debug_output_on_simulated_gpus_asks_nothing_of_torch_that_gloo_does_not_bear() -> None:
    failed = row("a", "failed", reason="exit 1", gpus=(0,))
    question = asked(doing.retry_menu([failed], [failed], simulated=True))
    assert request(question.then("debug"))[1]["env"] == {"NCCL_DEBUG": "INFO", "TORCH_DISTRIBUTED_DEBUG": "INFO"}


def test_the_retry_menu_offers_all_that_is_changed_and_all_that_is_stale() -> None:
    rows = [row("a", "succeeded", changed=True), row("b", "cached", stale=True), row("c", "succeeded", stale=True)]
    question = asked(doing.retry_menu(rows, []))
    assert [answer.label for answer in question.answers[1:]] == [
        "1 that an edit changed",
        "2 that newer results made stale",
    ]
    assert request(question.then("changed")) == ("retry", {"tasks": ["a"]})
    assert request(question.then("stale")) == ("retry", {"tasks": ["b", "c"]})


def test_the_longest_retry_menu_has_a_key_for_each_answer() -> None:
    kinds = ("exit", "signal", "oom", "timeout", "watch", "lost", "spawn error")
    rows = [row(kind, "failed", kind=kind, gpus=(at,)) for at, kind in enumerate(kinds)]
    question = asked(doing.retry_menu([*rows, row("a", "succeeded", changed=True, stale=True)], rows))
    assert len({answer.key for answer in question.answers}) == len(question.answers) == 19


def test_a_stop_offers_the_tasks_only_where_some_run() -> None:
    assert [answer.id for answer in asked(doing.stop(0)).answers] == ["no", "engine"]
    assert [answer.id for answer in asked(doing.stop(2)).answers] == ["no", "engine", "tasks"]


def test_a_drained_gpu_is_enabled_again() -> None:
    gpu = GpuRow(index=3, uuid="GPU-x")
    assert request(doing.drain(gpu))[1]["verb"] == "drain"
    assert request(doing.drain(GpuRow(index=3, uuid="GPU-x", mark="drain")))[1]["verb"] == "enable"
