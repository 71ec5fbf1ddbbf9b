"""A journal that is gone, while jobs of the deck wait or run on a cluster."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gpudeck.engine.core.events import AttemptStarting
from gpudeck.engine.core.recorded import Recorded, recorded
from gpudeck.engine.core.spec import DeckSettings
from tests.inside.decks import may_have_jobs, recover

END = {"at": "", "kind": "ok", "exit_code": 0, "signal": None, "duration_s": 1.0}


def attempt(logs: Path, task: str, *, ended: bool = False, script: bool = True) -> None:
    folder = logs / task
    folder.mkdir(parents=True)
    told = {"task": task, "attempt": 1, "deck": "d", "fingerprint": "f", "start": "", "token": f"token-{task}"}
    (folder / "attempt-1.json").write_text(json.dumps({**told, **({"end": END} if ended else {})}))
    if script:
        (folder / "attempt-1.sh").touch()


def begun(logs: Path) -> list[AttemptStarting]:
    found = recover(str(logs), (), "d", Recorded(), boot_id="", results_too=False)[0]
    return [fact for fact in found if isinstance(fact, AttemptStarting)]


def test_an_attempt_that_was_given_to_a_cluster_may_begin_yet(tmp_path: Path) -> None:
    attempt(tmp_path, "a")
    assert [(start.token, start.where) for start in begun(tmp_path)] == [("token-a", "slurm")]


def test_one_that_has_ended_or_was_to_run_on_this_box_does_not(tmp_path: Path) -> None:
    attempt(tmp_path, "ended", ended=True)
    attempt(tmp_path, "here", script=False)
    assert begun(tmp_path) == []


@pytest.mark.parametrize(("backend", "expected"), [("slurm", True), ("local", False)])
def test_a_deck_without_a_past_is_looked_into_where_jobs_told_of_themselves(
    tmp_path: Path, backend: str, expected: bool
) -> None:
    (tmp_path / ".jobs").mkdir()
    settings = DeckSettings(backend=backend, log_dir=str(tmp_path))  # pyright: ignore[reportArgumentType]
    assert may_have_jobs(settings, recorded([])) is expected


def test_a_deck_that_never_submitted_anything_is_not(tmp_path: Path) -> None:
    assert not may_have_jobs(DeckSettings(backend="slurm", log_dir=str(tmp_path)), recorded([]))
