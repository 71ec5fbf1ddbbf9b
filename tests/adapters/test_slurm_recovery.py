"""What the control folder proves of an earlier engine's attempts, and how little of it is read for that."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gpudeck.engine.ports import Known
from tests.inside.adapters import Left

TOKEN, JOB = "a" * 24, "12"


def known(job: str = JOB) -> Known:
    return Known(TOKEN, 0, 0, job=job)


def lies(folder: Path, kind: str, text: str = "") -> None:
    (folder / f"{TOKEN}.{kind}").write_text(text)


def hangs(folder: Path, kind: str) -> None:
    """Whoever opens it waits for ever."""
    os.mkfifo(folder / f"{TOKEN}.{kind}")


@pytest.mark.parametrize("kind", ["claim", "began", "alive"])
def test_nothing_is_read_of_a_job_that_began_and_whose_number_is_known(tmp_path: Path, kind: str) -> None:
    for each in ("claim", "began", "alive"):
        hangs(tmp_path, each) if each == kind else lies(tmp_path, each)
    fate, job = Left.read(str(tmp_path), [known()], 10.0).fate(known())
    assert (fate, job.id, job.claimed) == ("adopted", JOB, True)


def test_an_end_counts_by_its_name_since_nothing_lives_then(tmp_path: Path) -> None:
    lies(tmp_path, "began")
    hangs(tmp_path, "ended")
    assert Left.read(str(tmp_path), [known()], 10.0).fate(known())[0] == "ended"


def test_maps_are_not_read_where_claims_tell_the_numbers(tmp_path: Path) -> None:
    lies(tmp_path, "claim", f"{JOB}_3\n")
    os.mkfifo(tmp_path / f"{'b' * 24}.map")
    fate, job = Left.read(str(tmp_path), [known("")], 10.0).fate(known(""))
    assert (fate, job.id, job.stage) == ("adopted", f"{JOB}_3", "waiting")


@pytest.mark.parametrize("claim", ["", "void\n"])
def test_an_element_without_a_number_is_found_by_its_map(tmp_path: Path, claim: str) -> None:
    lies(tmp_path, "claim", claim)
    (tmp_path / f"{'b' * 24}.map").write_text(f"0 {TOKEN}\n")
    assert Left.read(str(tmp_path), [known("")]).fate(known(""))[1].element == f"{'b' * 24}_0"


def test_a_folder_that_does_not_answer_in_time_proves_nothing(tmp_path: Path) -> None:
    hangs(tmp_path, "claim")
    fate, job = Left.read(str(tmp_path), [known()], 0.05).fate(known())
    assert (fate, job.stage, job.claimed) == ("adopted", "waiting", False)
