"""What an engine on another login node may find of a job: its record is there before Slurm has the job."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fakes.job_rig import TOKEN, order_in
from tests.inside.slurm import submit

TOLD = f'{{"token": "{TOKEN}"}}\n'.encode()


@pytest.mark.parametrize(
    ("before", "after"),
    [(None, TOLD), (b'{"token": "of an attempt that never ran"}', TOLD), (TOLD + b" and more", TOLD + b" and more")],
    ids=["none", "of another attempt", "of this one, and more"],
)
def test_the_record_is_written_before_sbatch_unless_one_of_the_attempt_is_there(
    tmp_path: Path, before: bytes | None, after: bytes
) -> None:
    record = tmp_path / "attempt-1.json"
    if before is not None:
        record.write_bytes(before)
    sbatch = tmp_path / "sbatch"
    sbatch.write_text(f'#!/bin/sh\ncp "{record}" "{tmp_path}/seen"; echo 12\n')
    sbatch.chmod(0o700)
    answer = submit([order_in(tmp_path, record=TOLD)], "", str(tmp_path), {"PATH": f"{tmp_path}:/usr/bin:/bin"})
    assert (answer.kind, answer.job_id) == ("taken", "12")
    assert ((tmp_path / "seen").read_bytes(), record.read_bytes()) == (after, after)
