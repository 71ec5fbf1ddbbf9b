"""The folder of small files, as the engine looks at it, and what it proves of an earlier engine's attempts."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gpudeck.engine.ports import Known
from tests.inside.adapters import read_files, read_left, recovered

TOKEN, JOB = "a" * 24, "12"


def known(job: str = JOB) -> Known:
    return Known(TOKEN, 0, 0, job=job)


def lies(folder: Path, kind: str, text: str = "") -> None:
    (folder / f"{TOKEN}.{kind}").write_text(text)


def hangs(folder: Path, kind: str) -> None:
    """Whoever opens it waits for ever."""
    os.mkfifo(folder / f"{TOKEN}.{kind}")


@pytest.mark.parametrize("on_network", [True, False])
def test_only_a_folder_on_a_file_server_is_written_to_before_it_is_listed(tmp_path: Path, on_network: bool) -> None:
    """A client of NFS shows an old listing until it has written something itself."""
    os.utime(tmp_path, (0, 0))
    assert read_files(str(tmp_path), [], {}, on_network=on_network) == {}
    assert (os.stat(tmp_path).st_mtime > 0, list(tmp_path.iterdir())) == (on_network, [])


def test_a_folder_that_somebody_removed_is_made_again_with_the_claims_of_what_runs(tmp_path: Path) -> None:
    folder = tmp_path / "jobs"
    assert read_files(str(folder), [], {"token": "4711"}, on_network=False) is None
    assert (folder / "token.claim").read_text().strip() == "4711"


@pytest.mark.parametrize("kind", ["claim", "began", "alive"])
def test_nothing_is_read_of_a_job_that_began_and_whose_number_is_known(tmp_path: Path, kind: str) -> None:
    for each in ("claim", "began", "alive"):
        hangs(tmp_path, each) if each == kind else lies(tmp_path, each)
    fate, job = recovered(known(), read_left(str(tmp_path), [known()]))
    assert (fate, job.id, job.seen.claimed) == ("adopted", JOB, True)


def test_an_end_counts_by_its_name_since_nothing_lives_then(tmp_path: Path) -> None:
    lies(tmp_path, "began")
    hangs(tmp_path, "ended")
    assert recovered(known(), read_left(str(tmp_path), [known()]))[0] == "ended"


def test_maps_are_not_read_where_claims_tell_the_numbers(tmp_path: Path) -> None:
    lies(tmp_path, "claim", f"{JOB}_3\n")
    os.mkfifo(tmp_path / f"{'b' * 24}.map")
    fate, job = recovered(known(""), read_left(str(tmp_path), [known("")]))
    assert (fate, job.id, job.stage) == ("adopted", f"{JOB}_3", "waiting")


@pytest.mark.parametrize("claim", ["", "void\n"])
def test_an_element_without_a_number_is_found_by_its_map(tmp_path: Path, claim: str) -> None:
    lies(tmp_path, "claim", claim)
    (tmp_path / f"{'b' * 24}.map").write_text(f"0 {TOKEN}\n")
    assert recovered(known(""), read_left(str(tmp_path), [known("")]))[1].element == f"{'b' * 24}_0"
