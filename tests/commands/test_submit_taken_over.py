"""What an engine says of jobs that `gpudeck submit` handed over, or an earlier engine: nothing that happened without it
is told as if it happened now."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.e2e.decks import Deck
from tests.fakes.paper_slurm import PaperSlurm


@pytest.fixture
def token(deck: Deck, tmp_path: Path) -> str:
    """Of the job that was submitted."""
    slurm = PaperSlurm(tmp_path / "cluster")
    deck.env["PATH"] = f"{slurm.folder}/bin:{deck.env['PATH']}"
    deck.write('[[task]]\nname = "a"\ngpus = 0\ncommand = "true"\n')
    done = deck.command("submit", "--json", "--go")
    assert done.code == 0, done.err
    return json.loads(done.out)["jobs"][0]["tasks"][0]["token"]


def tell(deck: Deck, token: str, kind: str, text: str) -> None:
    (deck.folder / "logs/.jobs" / f"{token}.{kind}").write_text(text)


def test_of_a_job_that_ended_meanwhile_only_the_end_is_told(deck: Deck, token: str) -> None:
    tell(deck, token, "claim", "101\n")
    tell(deck, token, "began", "job=101\nnodes=node1\nhost=node1\nwall=1\n")
    tell(deck, token, "ended", "code=0\nwall=2\n")
    ran = deck.run("--backend", "slurm")
    assert (ran.code, ran.states) == (0, {"a": "succeeded"})
    kinds = [event["event"] for event in ran.events]
    assert [kind for kind in kinds if kind.startswith("task_")] == ["task_ended", "task_result"]


def test_a_job_that_waits_is_adopted_and_its_beginning_told(deck: Deck, token: str) -> None:
    engine = deck.start("--backend", "slurm")
    assert engine.event("task_submitted", task="a")["adopted"] is True
    tell(deck, token, "claim", "101\n")
    tell(deck, token, "began", "job=101\nnodes=node1\nhost=node1\nwall=1\n")
    engine.started("a")
    tell(deck, token, "ended", "code=0\nwall=2\n")
    assert engine.finish().code == 0
    assert deck.record("a")["end"]["kind"] == "ok"
