"""The socket lies where only its owner reaches it, and comes back when a cleaner took it away."""

from __future__ import annotations

import fcntl
import os
import socket
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tests.inside.server import connect, listen, peer_uid


def answers(address: str) -> bool:
    try:
        connect(address).close()
    except OSError:
        return False
    return True


@pytest.mark.parametrize("umask", [0o000, 0o077, 0o777])
def test_the_umask_changes_nothing_of_that(tmp_path: Path, umask: int) -> None:
    old = os.umask(umask)
    try:
        (tmp_path / "s").mkdir()
        (tmp_path / "s").chmod(0o700)
        listener = listen(str(tmp_path), folder=str(tmp_path / "s"))
    finally:
        os.umask(old)
    assert stat.S_IMODE(os.stat(listener.address).st_mode) == 0o600
    assert answers(listener.address)
    listener.close()


def refused_link(folder: Path) -> None:
    (folder.parent / "elsewhere").mkdir(mode=0o700)
    folder.symlink_to(folder.parent / "elsewhere")


def refused_mode(folder: Path) -> None:
    folder.mkdir()
    folder.chmod(0o770)


def refused_file(folder: Path) -> None:
    folder.write_text("")


@pytest.mark.parametrize("spoil", [refused_link, refused_mode, refused_file])
def test_a_folder_that_is_not_safe_is_not_used(tmp_path: Path, spoil: object) -> None:
    assert callable(spoil)
    spoil(tmp_path / "s")
    state = tmp_path / "state"
    state.mkdir(mode=0o700)
    listener = listen(str(state), folder=str(tmp_path / "s"))
    assert os.path.dirname(listener.address) == str(state)
    assert answers(listener.address)
    listener.close()


def test_a_client_refuses_a_folder_that_others_can_write(tmp_path: Path) -> None:
    listener = listen(str(tmp_path), folder=str(tmp_path / "s"))
    (tmp_path / "s").chmod(0o777)
    assert not answers(listener.address)
    listener.close()


def test_a_path_longer_than_a_socket_name_can_be_works(tmp_path: Path) -> None:
    deep = tmp_path / ("x" * 150)
    listener = listen(str(tmp_path), folder=str(deep))
    assert os.path.dirname(listener.address) == str(deep)
    assert answers(listener.address)
    listener.close()


def test_cleaners_leave_a_folder_alone_as_long_as_somebody_listens(tmp_path: Path) -> None:
    listener = listen(str(tmp_path), folder=str(tmp_path / "s"))
    folder = os.open(tmp_path / "s", os.O_RDONLY)
    with pytest.raises(BlockingIOError):
        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
    listener.close()
    fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.close(folder)


def test_what_an_engine_left_is_replaced(tmp_path: Path) -> None:
    script = (
        "import sys, os; from gpudeck.engine.adapters.state.sockets import listen; "
        "print(listen(sys.argv[1], folder=sys.argv[2]).address, flush=True); os._exit(9)"
    )
    folder = str(tmp_path / "s")
    left = subprocess.run((sys.executable, "-c", script, str(tmp_path), folder), capture_output=True, text=True)
    address = left.stdout.strip()
    assert not answers(address)
    listener = listen(str(tmp_path), folder=folder)
    assert listener.address == address
    assert answers(address)
    listener.close()


def test_a_socket_that_was_removed_is_noticed(tmp_path: Path) -> None:
    listener = listen(str(tmp_path), folder=str(tmp_path / "s"))
    assert listener.still_there()
    os.unlink(listener.address)
    assert not listener.still_there()
    os.close(os.open(listener.address, os.O_CREAT | os.O_WRONLY))
    assert not listener.still_there()
    listener.close()
    assert os.path.exists(listener.address), "somebody else's file stays"


def test_a_closed_listener_leaves_no_file(tmp_path: Path) -> None:
    listener = listen(str(tmp_path), folder=str(tmp_path / "s"))
    listener.close()
    listener.close()
    assert os.listdir(tmp_path / "s") == []


def test_two_decks_have_two_sockets(tmp_path: Path) -> None:
    first = listen(str(tmp_path / "a"), folder=str(tmp_path / "s"))
    second = listen(str(tmp_path / "b"), folder=str(tmp_path / "s"))
    assert first.address != second.address
    first.close()
    second.close()


def test_the_kernel_tells_who_is_at_the_other_end(tmp_path: Path) -> None:
    listener = listen(str(tmp_path), folder=str(tmp_path / "s"))
    client = connect(listener.address)
    listener.socket.setblocking(True)
    accepted, _ = listener.socket.accept()
    assert isinstance(accepted, socket.socket)
    assert peer_uid(accepted) == os.geteuid()
    for end in (client, accepted):
        end.close()
    listener.close()


IMPOSTOR = """
import os, socket, sys
door = socket.socket(socket.AF_UNIX)
door.bind(sys.argv[1])
os.setuid(12345)
door.listen()
print("listening", flush=True)
sys.stdin.read()
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be somebody else")
def test_a_client_tells_another_users_process_nothing(tmp_path: Path) -> None:
    (tmp_path / "s").mkdir(mode=0o700)
    address = str(tmp_path / "s" / "deck.sock")
    command = [sys.executable, "-c", IMPOSTOR, address]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as impostor:
        assert impostor.stdout is not None
        assert impostor.stdout.readline() == b"listening\n"
        with pytest.raises(PermissionError, match="another user's process listens there"):
            connect(address)
        impostor.kill()
