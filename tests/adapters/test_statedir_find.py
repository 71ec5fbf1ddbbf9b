"""Finding a deck's state without making anything; who holds its lock, without taking it."""

from __future__ import annotations

import fcntl
import json
import os
from dataclasses import asdict
from pathlib import Path

import pytest

from gpudeck.engine.errors import EngineUnavailableError
from tests.inside.adapters import DeckLock, Machine, find_state_dir, held_by, open_state_dir, this_machine

GPU7 = Machine(host="gpu7", machine_id="7" * 32, boot_id="b7", pid_ns=7)
GPU8 = Machine(host="gpu8", machine_id="8" * 32, boot_id="b8", pid_ns=8)


def nfs_at(path: Path, where: Path) -> str:
    mounts = where / "mountinfo"
    mounts.write_text(f"1 0 0:1 / / rw - ext4 /dev/sda rw\n2 1 0:2 / {path} rw - nfs4 server:/x rw\n")
    return str(mounts)


def test_a_state_that_was_never_made_is_not_found_and_not_made(tmp_path: Path) -> None:
    assert find_state_dir(str(tmp_path / "tasks.toml"), ".gpudeck", "tasks") is None
    assert os.listdir(tmp_path) == []


def test_the_state_that_an_engine_made_is_found(tmp_path: Path) -> None:
    made = open_state_dir(str(tmp_path / "tasks.toml"), "st", "a@b")
    found = find_state_dir(str(tmp_path / "tasks.toml"), "st", "a@b")
    assert found is not None
    assert found.path == made.path


def test_beside_a_file_on_a_server_the_pointer_leads_to_the_state(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "local"))
    shared = tmp_path / "nfs"
    shared.mkdir()
    mounts = nfs_at(shared, tmp_path)
    made = open_state_dir(str(shared / "tasks.toml"), ".gpudeck", "tasks", machine=GPU7, mounts=mounts)
    found = find_state_dir(str(shared / "tasks.toml"), ".gpudeck", "tasks", machine=GPU7, mounts=mounts)
    assert found is not None
    assert found.path == made.path
    assert found.path.startswith(str(tmp_path / "local"))


def test_a_state_on_another_machine_names_that_machine(tmp_path: Path) -> None:
    (tmp_path / ".gpudeck").mkdir()
    pointer = {"machine": asdict(GPU7), "path": "/home/me/.local/state/gpudeck/ab"}
    (tmp_path / ".gpudeck/tasks.json").write_text(json.dumps(pointer))
    mounts = nfs_at(tmp_path, tmp_path)
    with pytest.raises(EngineUnavailableError, match="this deck's state lies on gpu7"):
        find_state_dir(str(tmp_path / "tasks.toml"), ".gpudeck", "tasks", machine=GPU8, mounts=mounts)


def test_nobody_holds_a_lock_that_was_never_made(tmp_path: Path) -> None:
    assert held_by(str(tmp_path)) is None
    assert os.listdir(tmp_path) == []


def test_the_holder_is_known_while_it_holds_the_lock(tmp_path: Path) -> None:
    lock = DeckLock.acquire(str(tmp_path))
    holder = held_by(str(tmp_path))
    lock.release()
    assert holder is not None
    assert holder.pid == os.getpid()
    assert held_by(str(tmp_path)) is None


def test_a_lock_without_a_word_in_it_is_held_by_somebody(tmp_path: Path) -> None:
    with open(tmp_path / "lock", "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        holder = held_by(str(tmp_path))
    assert holder is not None
    assert (holder.pid, holder.machine) == (0, this_machine())


def test_looking_leaves_the_lock_to_whoever_wants_it(tmp_path: Path) -> None:
    DeckLock.acquire(str(tmp_path)).release()
    held_by(str(tmp_path))
    DeckLock.acquire(str(tmp_path), wait_s=0).release()
