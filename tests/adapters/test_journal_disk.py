"""Full and failing disks, with real ones: a small tmpfs in a mount namespace, and a kernel that refuses calls."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.journal import appended, numbered, numbers
from tests.fakes.journal_child import started
from tests.fakes.small_disk import small_disk
from tests.inside.adapters import SqliteJournal

CHILD = ("-m", "tests.fakes.journal_child")
MOUNT = 'mount -t tmpfs -o size=16m none "$1" && f=$1 && shift && exec "$@" fill "$f"'


def mount_namespace() -> list[str]:
    """The first of: as root, in a user namespace, through sudo, that lets us mount where nobody else sees it."""
    ways = [
        ["unshare", "--mount"],
        ["unshare", "--user", "--map-root-user", "--mount"],
        ["sudo", "-n", "unshare", "-m"],
    ]
    for way in ways:
        if shutil.which(way[0]) and subprocess.run([*way, "true"], capture_output=True, check=False).returncode == 0:
            return way
    return ways[0]


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What happened to a journal on a disk of 16 MiB that was filled and freed."""
    script = ["sh", "-c", MOUNT, "sh", str(tmp_path_factory.mktemp("small")), sys.executable, *CHILD]
    done = subprocess.run([*mount_namespace(), *script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def broken(folder: Path, calls: str, code: str) -> list[str]:
    """The outcomes of three appends, of which the last two met the error."""
    with started("break", str(folder), calls, code) as (_, out):
        return json.loads(out.read())


def test_a_full_disk_fails_the_append_that_meets_it(filled: dict[str, Any]):
    assert filled["results"]["full"] == "ENOSPC"


def test_the_reserve_takes_facts_that_must_be_kept(filled: dict[str, Any]):
    assert filled["results"]["kept"] == "written"


def test_the_reserve_is_not_for_other_facts(filled: dict[str, Any]):
    assert filled["results"]["not kept"] == "ENOSPC"


def test_kept_facts_beyond_the_reserve_fail_for_now(filled: dict[str, Any]):
    assert filled["results"]["beyond the reserve"] == "ENOSPC"


def test_appends_work_again_when_there_is_space(filled: dict[str, Any]):
    assert filled["results"]["freed"] == "written"


def test_everything_kept_is_there_in_order_and_nothing_that_failed(filled: dict[str, Any]):
    kept = [0, *range(401, 501), *range(502, 40_502), 40_502]
    assert (filled["kept"], filled["damage"]) == (kept, "")


def test_full_and_free_are_each_told_once(filled: dict[str, Any]):
    assert filled["told"] == [True, False]


def test_a_start_on_a_full_disk_is_refused_and_does_no_harm(filled: dict[str, Any]):
    refused, damage_later = filled["start"]
    assert refused.endswith("cannot be opened: no space is left there: free some, or set state_dir to another disk")
    assert damage_later == ""


def test_a_journal_that_was_closed_on_a_full_disk_is_whole(tmp_path: Path):
    with small_disk(tmp_path / "small") as disk:
        path = str(disk.path / "deck.db")
        journal = SqliteJournal.open(path)
        appended(journal, numbered(0, 3)).result(20)
        journal.close()
        journal = SqliteJournal.open(path)
        disk.fill()
        journal.close()
        disk.empty()
        again = SqliteJournal.open(path)
        assert (numbers(again.load()), again.damage) == ([0, 1, 2], "")
        again.close()


def test_a_failed_fsync_breaks_the_journal_for_good(tmp_path: Path):
    assert broken(tmp_path, "fsync+fdatasync", "EIO") == ["written", "JournalBrokenError", "JournalBrokenError"]


def test_a_failed_write_breaks_the_journal_for_good(tmp_path: Path):
    assert broken(tmp_path, "pwrite64", "EIO") == ["written", "JournalBrokenError", "JournalBrokenError"]


def test_a_used_up_quota_is_a_full_disk_although_sqlite_calls_it_an_io_error(tmp_path: Path):
    assert broken(tmp_path, "pwrite64", "EDQUOT") == ["written", "EDQUOT", "EDQUOT"]
