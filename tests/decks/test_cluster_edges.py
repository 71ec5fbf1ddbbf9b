"""What of a deck runs on a cluster: jobs of other tools, runs that are known, tasks of several nodes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from gpudeck.engine.core.recorded import Recorded
from gpudeck.engine.core.spec import DeckFile, DeckSettings, Extras, TaskSpec, Work
from tests.inside.decks import may_have_jobs, passed_over_nodelists, tokens_recorded


@pytest.mark.parametrize(
    ("kind", "left"), [("sent", True), ("began", True), ("ended", True), ("claim", False), ("alive", False)]
)
def test_an_attempt_has_left_a_record_once_it_was_handed_over(tmp_path: Path, kind: str, left: bool) -> None:
    (tmp_path / "attempts").mkdir()
    (tmp_path / "logs/.jobs").mkdir(parents=True)
    (tmp_path / "logs/.jobs" / f"token.{kind}").touch()
    settings = DeckSettings(backend="slurm", log_dir=str(tmp_path / "logs"))
    assert ("token" in tokens_recorded(settings, str(tmp_path / "attempts"))) is left


def test_a_deck_with_a_past_needs_no_looking_for_one(tmp_path: Path) -> None:
    (tmp_path / ".jobs").mkdir()
    settings = DeckSettings(backend="slurm", log_dir=str(tmp_path))
    assert not may_have_jobs(settings, Recorded(run=1))


def test_a_nodelist_of_several_is_what_a_task_of_several_nodes_wants() -> None:
    one = TaskSpec("a", "a", 0, Work(("true",)), "f", extras=Extras(slurm=(("nodelist", "n[1-2]"),)))
    two = replace(one, name="b", extras=replace(one.extras, nodes=2))
    file = DeckFile("/t/tasks.toml", "tasks", DeckSettings(backend="slurm"), (one, two), shown="tasks.toml")
    assert [line.partition(":")[0] for line in passed_over_nodelists(file)] == ["a"]
