"""A deck whose tasks were handed to Slurm by `gpudeck submit`, and whose file names no backend: nothing runs twice."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.e2e.decks import Deck
from tests.fakes.paper_slurm import PaperSlurm

TWO = """
    [[task]]
    name = "a"
    gpus = 0
    command = "echo a >>ran"
    [[task]]
    name = "b"
    gpus = 0
    command = "echo b >>ran"
"""


@pytest.fixture
def submitted(deck: Deck, tmp_path: Path) -> dict[str, str]:
    """Tokens by task; Slurm has the job of "a" alone."""
    slurm = PaperSlurm(tmp_path / "cluster")
    deck.env["PATH"] = f"{slurm.folder}/bin:{deck.env['PATH']}"
    deck.write(TWO)
    done = deck.command("submit", "--only", "a", "--json", "--go")
    assert done.code == 0, done.err
    return {task["task"]: task["token"] for job in json.loads(done.out)["jobs"] for task in job["tasks"]}


def tell(deck: Deck, token: str, kind: str, text: str) -> None:
    (deck.folder / "logs/.jobs" / f"{token}.{kind}").write_text(text)


def test_status_says_what_was_submitted_and_what_follows_it(deck: Deck, submitted: dict[str, str]) -> None:
    done = deck.command("status")
    assert "a was submitted as Slurm jobs on 20" in done.err
    assert "`gpudeck --backend slurm` follows it" in done.err
    assert "submitted to Slurm, no engine yet" in done.out
    assert "never" not in done.out + done.err


def test_a_plan_for_this_box_warns_of_it(deck: Deck, submitted: dict[str, str]) -> None:
    assert "warning: a was submitted as Slurm jobs" in deck.command("plan").out


def test_a_plan_for_slurm_has_it_under_way(deck: Deck, submitted: dict[str, str]) -> None:
    rows = json.loads(deck.command("plan", "--backend", "slurm", "--json").out)
    assert {row["task"]: row["state"] for row in rows} == {"a": "under way", "b": "runs"}


@pytest.mark.parametrize("options", [(), ("--backend", "local")])
def test_an_engine_for_this_box_starts_nothing_while_a_job_of_its_tasks_may_run(
    deck: Deck, submitted: dict[str, str], options: tuple[str, ...]
) -> None:
    done = deck.run(*options)
    assert (done.code, (deck.folder / "ran").exists()) == (2, False)
    assert "a was submitted as Slurm jobs" in done.err
    assert "`gpudeck --backend slurm` goes on with what was begun" in done.err


def test_what_was_not_submitted_runs_on_this_box(deck: Deck, submitted: dict[str, str]) -> None:
    assert deck.run("--only", "b").code == 0
    assert deck.lines("ran") == ["b"]


def test_what_has_ended_is_run_again_only_where_the_user_says_so(deck: Deck, submitted: dict[str, str]) -> None:
    tell(deck, submitted["a"], "ended", "code=0\nwall=1\n")
    refused = deck.run()
    assert (refused.code, "`gpudeck --backend local` runs it again on this box" in refused.err) == (2, True)
    assert deck.run("--backend", "local").code == 0
    assert sorted(deck.lines("ran")) == ["a", "b"]


def test_once_it_has_run_here_nothing_is_said_of_its_job_any_more(deck: Deck, submitted: dict[str, str]) -> None:
    tell(deck, submitted["a"], "ended", "code=0\nwall=1\n")
    deck.run("--backend", "local")
    assert "Slurm" not in deck.command("status").err
    assert deck.run().code == 0


def test_a_job_that_was_found_gone_before_it_began_is_no_obstacle(deck: Deck, submitted: dict[str, str]) -> None:
    tell(deck, submitted["a"], "claim", "void\n")
    assert deck.run().code == 0
    assert sorted(deck.lines("ran")) == ["a", "b"]
