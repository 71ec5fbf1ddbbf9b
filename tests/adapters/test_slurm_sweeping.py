"""Old files of the control folder that nobody will ask for again."""

from __future__ import annotations

import os
import time
from pathlib import Path

from tests.inside.adapters import sweep

DAY_S = 86_400.0


def put(folder: Path, name: str, days: float, text: str = "") -> None:
    path = folder / name
    path.write_text(text)
    os.utime(path, (time.time() - days * DAY_S,) * 2)


def test_old_files_of_arrays_and_old_claims_of_no_job_go_and_nothing_else(tmp_path: Path) -> None:
    for token, days in (("old", 8), ("new", 1)):
        put(tmp_path, f"{token}.map", days)
        put(tmp_path, f"{token}.sh", days)
    put(tmp_path, "a.claim", 61, "void\n")
    put(tmp_path, "empty.claim", 61)
    put(tmp_path, "b.claim", 30, "void\n")
    put(tmp_path, "c.claim", 61, "1234\n")
    put(tmp_path, "c.ended", 61, "code=0\n")
    sweep(str(tmp_path))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["b.claim", "c.claim", "c.ended", "new.map", "new.sh"]


def test_a_folder_that_is_not_there_is_no_error(tmp_path: Path) -> None:
    sweep(str(tmp_path / "none"))
