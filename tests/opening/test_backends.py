"""What of a deck runs on a cluster and what on this box, when the other of the two opens it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from gpudeck.engine.core.events import AttemptEnded, AttemptStarting, AttemptSubmitted, Fact, Outcome
from gpudeck.engine.core.recorded import recorded
from gpudeck.engine.core.spec import DeckFile, DeckSettings
from gpudeck.engine.errors import EngineUnavailableError, UsageError
from tests.inside.opening import refuse_elsewhere, require_cluster, tokens_recorded, unsettled

ON_BOX = DeckFile("/t/tasks.toml", "tasks", DeckSettings(), (), shown="tasks.toml")
ON_SLURM = replace(ON_BOX, settings=DeckSettings(backend="slurm"))


def begun(task: str, where: str = "") -> AttemptStarting:
    return AttemptStarting(task, 1, f"token-{task}", "f", (), 1, 0, 1.0, 1.0, where=where)


def ended(task: str) -> AttemptEnded:
    return AttemptEnded(task, 1, Outcome("ok", 0), 2.0, 2.0, 1.0, "succeeded")


def refusal(file: DeckFile, *facts: Fact) -> str:
    with pytest.raises(UsageError) as caught:
        refuse_elsewhere(file, recorded(facts))
    assert caught.value.exit_code == 2
    return str(caught.value)


def test_what_runs_on_this_box_keeps_a_cluster_from_taking_the_deck() -> None:
    assert refusal(ON_SLURM, begun("a"), begun("b"), begun("c"), ended("c")) == (
        'tasks.toml: a, b began on this box and have not ended, as far as is known; with backend = "slurm" nobody '
        "would see it: `gpudeck --backend local` goes on with what was begun, and `gpudeck stop --tasks` then ends it"
    )


def test_jobs_keep_this_box_from_taking_the_deck_and_are_named() -> None:
    said = refusal(ON_BOX, begun("a", "slurm"), AttemptSubmitted("a", 1, "1234_7"))
    assert said.startswith("tasks.toml: a (job 1234_7) began on the cluster and has not ended")
    assert "`gpudeck --backend slurm`" in said


def test_many_are_counted() -> None:
    assert "t0, t1, t2, t3, t4 and 3 more tasks began" in refusal(ON_SLURM, *(begun(f"t{n}") for n in range(8)))


def test_what_runs_where_the_deck_is_opened_is_no_obstacle() -> None:
    refuse_elsewhere(ON_SLURM, recorded([begun("a", "slurm"), begun("b"), ended("b")]))
    refuse_elsewhere(ON_BOX, recorded([begun("a"), begun("b", "slurm"), ended("b")]))


def test_a_box_without_slurm_opens_no_deck_of_a_cluster(tmp_path: Path) -> None:
    with pytest.raises(EngineUnavailableError, match="needs sbatch, which is not on PATH here"):
        require_cluster(ON_SLURM.settings, {"PATH": str(tmp_path)})
    require_cluster(ON_BOX.settings, {"PATH": str(tmp_path)})
    sbatch = tmp_path / "sbatch"
    sbatch.touch(mode=0o755)
    require_cluster(ON_SLURM.settings, {"PATH": str(tmp_path)})


def test_attempts_that_told_of_themselves_in_the_control_folder_have_left_a_record(tmp_path: Path) -> None:
    here, control = tmp_path / "attempts", tmp_path / "logs/.jobs"
    for folder in (here, control):
        folder.mkdir(parents=True)
    (here / "t1").touch()
    for name in ("t2.began", "t3.ended", "t4.claim"):
        (control / name).touch()
    settings = DeckSettings(backend="slurm", log_dir=str(tmp_path / "logs"))
    assert tokens_recorded(settings, str(here)) == {"t1", "t2", "t3"}
    assert tokens_recorded(replace(settings, backend="local"), str(here)) == {"t1"}


def test_of_ends_on_disk_those_whose_record_still_stands_are_settled_once_more() -> None:
    facts = [begun("a"), ended("a"), begun("b"), ended("b"), ended("lost its start")]
    assert unsettled({"token-b"}, recorded(facts)) == [(ended("b"), begun("b"))]
