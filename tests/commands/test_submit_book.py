"""How jobs that were submitted earlier stand: by the files in which they tell it; where these are silent, by Slurm."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from tests.fakes.paper_slurm import PaperSlurm
from tests.inside.commands import Record, Stands, book

TOKEN = "a" * 24


class Folder:
    """One task's job, and the cluster that may have it."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "slurm"
        self.control = folder / "control"
        self.slurm = PaperSlurm(folder / "cluster")
        self.path.mkdir()
        self.control.mkdir()
        book.save(str(self.path), [Record("t", 1, TOKEN, "f", str(self.control), (0, 3))])

    def given(self, line: str) -> None:
        (self.path / "submitted").write_text(line)

    def tells(self, kind: str, text: str = "", *, ago_s: float = 0.0) -> None:
        path = self.control / f"{TOKEN}.{kind}"
        path.write_text(text)
        os.utime(path, (time.time() - ago_s, time.time() - ago_s))

    def stands(self) -> Stands:
        return book.earlier(str(self.path), {**os.environ, **self.slurm.env})["t"].stands


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


def test_what_was_not_handed_over_is_not_asked_about(folder: Folder) -> None:
    assert (folder.stands(), folder.slurm.calls("squeue")) == ("unsent", [])


@pytest.mark.parametrize("line", [f"t {TOKEN} 12", f"t {TOKEN} ?t-aaaaaaaa\nt {TOKEN} -\n"])
def test_a_line_that_was_cut_short_or_taken_back_says_nothing(folder: Folder, line: str) -> None:
    folder.given(line)
    assert folder.stands() == "unsent"


@pytest.mark.parametrize(("code", "stands"), [("0", "ok"), ("3", "ok"), ("1", "failed"), ("setup", "failed")])
def test_its_end_is_judged_by_the_tasks_own_codes(folder: Folder, code: str, stands: str) -> None:
    folder.given(f"t {TOKEN} 12\n")
    folder.tells("ended", f"code={code}\nwall=1\n")
    assert (folder.stands(), folder.slurm.calls("squeue")) == (stands, [])


def test_a_job_in_the_queue_waits(folder: Folder) -> None:
    folder.given(f"t {TOKEN} 12\n")
    folder.slurm.row("12", "PENDING", text=f"gpudeck {TOKEN}")
    assert folder.stands() == "waits"


def test_a_job_that_slurm_may_have_waits_whatever_the_queue_says(folder: Folder) -> None:
    folder.given(f"t {TOKEN} ?t-aaaaaaaa\n")
    assert (folder.stands(), (folder.control / f"{TOKEN}.claim").exists()) == ("waits", False)


def test_a_job_waits_where_slurm_does_not_answer(folder: Folder) -> None:
    folder.given(f"t {TOKEN} 12\n")
    folder.slurm.silence()
    assert (folder.stands(), (folder.control / f"{TOKEN}.claim").exists()) == ("waits", False)


def test_a_job_that_is_gone_and_never_began_failed_and_never_will(folder: Folder) -> None:
    folder.given(f"t {TOKEN} 12\n")
    assert (folder.stands(), (folder.control / f"{TOKEN}.claim").read_text()) == ("failed", "void\n")


def test_a_job_that_is_gone_while_its_heart_beats_has_not_ended(folder: Folder) -> None:
    folder.given(f"t {TOKEN} 12\n")
    folder.tells("alive", ago_s=60.0)
    assert folder.stands() == "waits"


def test_a_job_that_is_over_and_whose_heart_stands_still_failed(folder: Folder) -> None:
    folder.given(f"t {TOKEN} 12\n")
    folder.slurm.row("12", "NODE_FAIL", text=f"gpudeck {TOKEN}")
    folder.tells("alive", ago_s=100.0)
    assert folder.stands() == "failed"


def test_a_job_that_has_its_claim_and_no_heartbeat_yet_waits(folder: Folder) -> None:
    folder.given(f"t {TOKEN} 12\n")
    folder.tells("claim", "12\n")
    assert folder.stands() == "waits"


def test_a_job_that_is_gone_and_was_killed_before_its_first_heartbeat_failed(folder: Folder) -> None:
    folder.given(f"t {TOKEN} 12\n")
    folder.tells("claim", "12\n", ago_s=100.0)
    assert (folder.stands(), (folder.control / f"{TOKEN}.claim").read_text()) == ("failed", "12\n")
