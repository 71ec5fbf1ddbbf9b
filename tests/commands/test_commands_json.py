"""`--json` of commands that act or check: one object that tells what was done, to whom, and what was refused."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.commands.commands_rig import GATED, MIXED, Commanded
from tests.e2e.decks import until


def told(deck: Commanded, *words: str, code: int = 0) -> dict[str, Any]:
    done = deck.command(*words, "--json")
    assert done.code == code, done.err
    return json.loads(done.out)


def names(entries: list[dict[str, Any]]) -> list[str]:
    return [entry["name"] for entry in entries]


def test_what_a_verb_did_is_told_with_whom_it_passed_over_and_why(deck: Commanded) -> None:
    deck.write(MIXED)
    assert deck.run().code == 1
    answer = told(deck, "retry", "good", "bad", "behind", "-y")
    assert (answer["verb"], names(answer["done"]), answer["note"]) == ("retry", ["good", "bad"], "")
    (refused,) = answer["refused"]
    assert (refused["name"], "only what has ended can be retried" in refused["text"]) == ("behind", True)
    assert set(refused) == {"name", "state", "attempt", "text"}


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("hold", "wait-3"), "held"),
        (("priority", "wait-3", "7"), "priority 7"),
        (("cancel", "wait-3"), "cancelled"),
    ],
)
def test_each_verb_tells_its_outcome(deck: Commanded, words: tuple[str, ...], text: str) -> None:
    deck.gate()
    deck.write(GATED)
    deck.go()
    deck.until_state("wait-1", "running")
    (done,) = told(deck, *words)["done"]
    assert (done["name"], done["text"]) == ("wait-3", text)
    again = told(deck, "release", "wait-2")
    assert (again["done"], names(again["refused"])) == ([], ["wait-2"])
    deck.command("stop", "--tasks", "--now")


def test_no_task_that_is_meant_now_is_no_error(deck: Commanded) -> None:
    deck.write(MIXED)
    assert told(deck, "accept", "state:stale") == {
        "verb": "accept", "done": [], "refused": [], "note": "no task is state:stale now",
    }  # fmt: skip


def test_a_mistake_is_told_on_stderr_and_prints_no_object(deck: Commanded) -> None:
    deck.write(MIXED)
    done = deck.command("retry", "nobody", "--json")
    assert (done.code, done.out, done.err.startswith("gpudeck: ")) == (2, "", True)


def test_check_tells_a_sound_file_and_what_is_wrong_with_another(deck: Commanded) -> None:
    deck.write(MIXED)
    sound = told(deck, "check")
    assert (sound["sound"], sound["tasks"], sound["problems"]) == (True, 3, [])
    deck.write(MIXED.replace("needs", "neds"))
    wrong = told(deck, "check", code=2)
    assert (wrong["sound"], len(wrong["problems"])) == (False, 1)
    assert wrong["problems"][0].startswith("tasks.toml:12: ")


def test_apply_tells_the_plan_and_what_came_of_it(deck: Commanded) -> None:
    deck.gate()
    deck.write(GATED)
    deck.go()
    deck.until_state("wait-2", "running")
    deck.write(GATED.replace("[1, 2, 3]", "[1, 2, 4]"))
    plan = told(deck, "apply", "--dry-run")
    assert (plan["dry_run"], plan["changes"], plan["applied"]) == (True, True, None)
    assert plan["plan"]["added"] == ["wait-4"]
    applied = told(deck, "apply", "-y")
    assert (applied["changes"], applied["applied"] is None) == (True, False)
    assert told(deck, "apply", "-y")["changes"] is False
    deck.command("stop", "--tasks", "--now")


def test_wait_tells_who_has_not_succeeded(deck: Commanded) -> None:
    deck.write(MIXED)
    deck.run()
    answer = told(deck, "wait", code=1)
    assert (answer["exit_code"], answer["done"], names(answer["rest"])) == (1, 1, ["bad", "behind"])
    assert told(deck, "wait", "good") == {"exit_code": 0, "done": 1, "rest": []}


def test_pausing_draining_and_stopping_tell_how_the_deck_stands_then(deck: Commanded) -> None:
    deck.gate()
    deck.write(GATED)
    assert told(deck, "pause") == {"verb": "pause", "engine": None, "paused": "", "running": 0, "queued": 0}
    deck.go()
    deck.until_state("wait-2", "running")
    pid = deck.engine_pid()
    drained = told(deck, "gpus", "drain", "0-1")
    assert drained == {"verb": "drain", "gpus": [0, 1]}
    paused = told(deck, "pause")
    assert paused["paused"].startswith("paused")
    assert {**paused, "paused": ""} == {"verb": "pause", "engine": pid, "paused": "", "running": 2, "queued": 1}
    assert told(deck, "unpause") == {"verb": "unpause", "engine": pid, "paused": "", "running": 2, "queued": 1}
    assert told(deck, "stop") == {"engine": pid, "running": 2, "stopped": 0}
    assert told(deck, "stop") == {"engine": None, "running": 0, "stopped": 0}
    deck.go()
    assert told(deck, "stop", "--tasks", "--now")["stopped"] == 2


def test_what_was_added_is_told_by_name(deck: Commanded) -> None:
    deck.gate()
    deck.write(GATED)
    assert json.loads(deck.command("add", "--json", "--name", "late", "true").out) == {"added": ["late"]}
    deck.go()
    deck.until_state("wait-2", "running")
    assert json.loads(deck.command("add", "--json", "--name", "later", "true").out) == {"added": ["later"]}
    deck.command("stop", "--tasks", "--now")


def test_env_is_told_by_name_and_a_refresh_with_what_it_changed(deck: Commanded) -> None:
    deck.write(MIXED)
    deck.env["LR"] = "0.1"
    deck.run()
    assert told(deck, "env")["environment"]["LR"] == "0.1"
    deck.env["LR"] = "0.2"
    refreshed = told(deck, "env", "--refresh")
    assert (refreshed["changed"] >= 1, refreshed["engine"]) == (True, None)


def test_metrics_of_what_is_over_are_told_without_an_engine(deck: Commanded) -> None:
    deck.gate()
    deck.write(MIXED.replace("echo oops >&2", "echo ::gpudeck acc=0.5; read _ <gate"))
    deck.go()
    until(lambda: deck.rows("bad")["bad"]["metrics"])
    deck.gates[0].let()
    deck.until_state("bad", "failed")
    assert deck.command("stop").code == 0
    status = told(deck, "status")
    assert (status["engine"], status["failed"][0]["metrics"]) == (None, {"acc": 0.5})
    assert deck.rows("bad")["bad"]["metrics"] == {"acc": 0.5}
