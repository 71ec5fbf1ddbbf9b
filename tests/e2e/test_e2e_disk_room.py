"""`disk`: a deck that needs room starts nothing while there is less."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpudeck.engine.disk_watch import free_mib
from tests.commands.commands_rig import Commanded
from tests.e2e.live_rig import commanded, watching

WANTS = """
[deck]
gpus = "sim:1"
disk = "{room}"

[[task]]
name = "a"
command = "true"
"""


@pytest.fixture
def deck(tmp_path: Path) -> Iterator[Commanded]:
    with commanded(tmp_path) as made:
        yield made


def test_nothing_starts_while_less_is_free_and_all_does_once_less_is_asked_for(deck: Commanded) -> None:
    deck.write(WANTS.replace("{room}", "900TiB"))
    assert "a start needs 921600.0 GiB (disk): nothing starts before there is room" in deck.command("plan").out
    assert deck.go().code == 0
    with watching(deck) as seen:
        seen.until_states(a="queued")
        seen.until_waits_for("a", "a start needs 921600.0 GiB (disk)")
        deck.write(WANTS.replace("{room}", "1MiB"))
        assert deck.command("apply", "-y").code == 0
        seen.until_states(a="succeeded")


def test_the_disk_with_the_least_room_counts_and_a_folder_to_come_is_its_parents(tmp_path: Path) -> None:
    found = os.statvfs(tmp_path)
    here, there = free_mib([str(tmp_path / "not" / "yet")]), free_mib(["/dev/shm", str(tmp_path)])
    assert here is not None
    assert abs(here - (found.f_bavail * found.f_frsize >> 20)) < 1024
    assert there is not None
    assert there <= here + 1024
    assert free_mib([]) is None
