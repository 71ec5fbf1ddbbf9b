"""How jobs that were submitted earlier stand: by the files in which they tell it; where these are silent, by Slurm."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from tests.fakes.paper_slurm import PaperSlurm
from tests.inside.commands import Standing, Stands

TOKEN = "a" * 24


class Folder:
    """The files of one task's job, and the cluster that may have it."""

    def __init__(self, folder: Path) -> None:
        self.control = folder / "control"
        self.slurm = PaperSlurm(folder / "cluster")
        self.control.mkdir()
        self.tells("sent", "12\n")

    def tells(self, kind: str, text: str = "", *, ago_s: float = 0.0) -> None:
        path = self.control / f"{TOKEN}.{kind}"
        path.write_text(text)
        os.utime(path, (time.time() - ago_s, time.time() - ago_s))

    def stands(self) -> Stands:
        return Standing(str(self.control), {**os.environ, **self.slurm.env}).of(TOKEN, (0, 3))

    def claim(self) -> str:
        path = self.control / f"{TOKEN}.claim"
        return path.read_text() if path.exists() else ""


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


@pytest.mark.parametrize(("code", "stands"), [("0", "ok"), ("3", "ok"), ("1", "failed"), ("setup", "failed")])
def test_its_end_is_judged_by_the_tasks_own_codes(folder: Folder, code: str, stands: str) -> None:
    folder.tells("ended", f"code={code}\nwall=1\n")
    assert (folder.stands(), folder.slurm.calls("squeue")) == (stands, [])


def test_a_job_in_the_queue_waits(folder: Folder) -> None:
    folder.slurm.row("12", "PENDING", text=f"gpudeck {TOKEN}")
    assert folder.stands() == "waits"


@pytest.mark.parametrize(("job", "sent"), [("12", "?t-aaaaaaaa"), ("12_7", "?t-aaaaaaaa_7")])
def test_a_job_whose_sbatch_gave_no_answer_is_found_by_its_name(folder: Folder, job: str, sent: str) -> None:
    folder.tells("sent", f"{sent}\n3")  # the id that came next was cut short
    folder.slurm.row(job, "PENDING", text="other", name="t-aaaaaaaa")
    assert (folder.stands(), folder.claim()) == ("waits", "")


@pytest.mark.parametrize("sent", ["?t-aaaaaaaa\n", ""])
def test_a_job_that_slurm_never_took_failed_and_never_will_run(folder: Folder, sent: str) -> None:
    folder.tells("sent", sent)
    assert (folder.stands(), folder.claim()) == ("failed", "void\n")


def test_a_job_waits_where_slurm_does_not_answer(folder: Folder) -> None:
    folder.slurm.silence()
    assert (folder.stands(), folder.claim()) == ("waits", "")


def test_a_job_that_is_gone_and_never_began_failed_and_never_will(folder: Folder) -> None:
    assert (folder.stands(), folder.claim()) == ("failed", "void\n")


def test_a_job_that_is_gone_while_its_heart_beats_has_not_ended(folder: Folder) -> None:
    folder.tells("alive", ago_s=60.0)
    assert folder.stands() == "waits"


def test_a_job_that_is_over_and_whose_heart_stands_still_failed(folder: Folder) -> None:
    folder.slurm.row("12", "NODE_FAIL", text=f"gpudeck {TOKEN}")
    folder.tells("alive", ago_s=100.0)
    assert folder.stands() == "failed"


def test_a_job_that_has_its_claim_and_no_heartbeat_yet_waits(folder: Folder) -> None:
    folder.tells("claim", "12\n")
    assert folder.stands() == "waits"


def test_a_job_that_is_gone_and_was_killed_before_its_first_heartbeat_failed(folder: Folder) -> None:
    folder.tells("claim", "12\n", ago_s=100.0)
    assert (folder.stands(), folder.claim()) == ("failed", "12\n")
