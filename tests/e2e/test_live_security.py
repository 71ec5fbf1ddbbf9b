"""What other users of the box can see, write and reach of a deck that runs: nothing. Needs root, to be another user."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import stat
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gpudeck.engine.errors import DeckError
from gpudeck.engine.protocol.wire import REQUEST_LIMIT
from tests.commands.commands_rig import Commanded
from tests.e2e.decks import until
from tests.e2e.live_rig import NOBODY, as_user, commanded, give, run_as, watching
from tests.inside.e2e import RunOptions, attach, held_by

GATED = """
    [deck]
    gpus = "sim:2"
    [[task]]
    name = "long"
    command = "umask >>umask; read _ <gate"
    [[task]]
    name = "bad"
    command = "exit 3"
"""


@pytest.fixture
def deck(tmp_path: Path) -> Iterator[Commanded]:
    with commanded(tmp_path / "deck") as deck:
        deck.env["GPUDECK_SOCKET_DIR"] = str(tmp_path / "sockets")
        deck.write(GATED)
        deck.gate()
        yield deck


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder that every user can get at."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.fixture
def theirs(place: Path) -> Iterator[Commanded]:
    """A deck of another user, whose commands these are."""
    with commanded(place / "deck") as deck:
        deck.write(GATED)
        deck.gate()
        (place / "sockets").mkdir(mode=0o700)
        give(place)
        deck.env |= {"GPUDECK_SOCKET_DIR": str(place / "sockets"), "HOME": str(deck.folder)}
        deck.prefix = as_user()
        yield deck


def begin(deck: Commanded) -> None:
    told = deck.go()
    assert told.code == 0, told.err
    deck.until_state("bad", "failed")
    until(lambda: deck.lines("umask"))


def modes(folder: Path) -> dict[str, int]:
    found = {"": stat.S_IMODE(folder.stat().st_mode)}
    for path in sorted(folder.rglob("*")):
        found[str(path.relative_to(folder))] = stat.S_IMODE(path.lstat().st_mode)
    return found


def wrong(folder: Path, found: dict[str, int]) -> dict[str, str]:
    """Folders that are not 0700 and files that are not 0600."""
    return {
        name: oct(mode) for name, mode in found.items() if mode != (0o700 if (folder / name).is_dir() else 0o600)
    }  # fmt: skip


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
def test_state_and_socket_are_the_owners_alone_whatever_the_umask(deck: Commanded, umask: int) -> None:
    before = os.umask(umask)
    try:
        begin(deck)
    finally:
        os.umask(before)
    assert deck.lines("umask") == [f"{umask:04o}"]
    for folder in (deck.folder / ".gpudeck", deck.folder.parent / "sockets"):
        assert wrong(folder, modes(folder)) == {}


# -- who else is there -------------------------------------------------------------------------------------------------


def as_nobody(act: Callable[[], str]) -> str:
    """What *act* says when it is done by another user, without any privilege."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        with contextlib.suppress(BaseException):
            os.setgroups([])
            os.setresgid(NOBODY.pw_gid, NOBODY.pw_gid, NOBODY.pw_gid)
            os.setresuid(NOBODY.pw_uid, NOBODY.pw_uid, NOBODY.pw_uid)
            try:
                said = act()
            except OSError as error:
                said = type(error).__name__
            except DeckError as error:
                said = str(error)
            os.write(writer, said.encode())
        os._exit(0)
    os.close(writer)
    with open(reader, "rb") as pipe:
        said = pipe.read().decode()
    os.waitpid(child, 0)
    return said


def greeting(address: str) -> str:
    """What an engine says to whoever connects; "": it hangs up."""
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(20)
        client.connect(address)
        return client.recv(65536).decode()


def address_of(deck: Commanded) -> str:
    holder = deck.holder()
    assert holder is not None
    return holder.address


def short(folder: int, address: str) -> str:
    """The socket's path through an open folder: past the permissions of the folders above it."""
    return f"/proc/self/fd/{folder}/{os.path.basename(address)}"


def test_another_user_does_not_reach_the_socket(deck: Commanded) -> None:
    begin(deck)
    address = address_of(deck)
    assert "hello" in greeting(address)
    assert as_nobody(lambda: greeting(address)) == "PermissionError"


def test_another_user_who_could_open_the_socket_is_told_nothing(deck: Commanded) -> None:
    begin(deck)
    address = address_of(deck)
    os.chmod(os.path.dirname(address), 0o711)
    os.chmod(address, 0o666)
    folder = os.open(os.path.dirname(address), os.O_RDONLY)
    assert as_nobody(lambda: greeting(short(folder, address))) in ("", "ConnectionResetError")
    os.close(folder)


def test_a_client_that_finds_the_folder_open_to_others_says_so_at_once(deck: Commanded) -> None:
    begin(deck)
    os.chmod(os.path.dirname(address_of(deck)), 0o777)
    told = deck.command("status")
    assert told.code == 3
    assert f"which is open to others: chmod 700 {deck.folder.parent}/sockets" in told.err


def test_a_socket_folder_of_somebody_else_is_not_used(deck: Commanded) -> None:
    folder = deck.folder.parent / "sockets"
    folder.mkdir(mode=0o700)
    shutil.chown(folder, NOBODY.pw_uid)
    begin(deck)
    assert list(folder.iterdir()) == []
    assert os.path.dirname(address_of(deck)) == str(deck.folder / ".gpudeck/tasks")
    assert deck.command("status").code == 0


def test_a_link_in_place_of_the_state_folder_is_refused_with_a_line(deck: Commanded) -> None:
    (deck.folder.parent / "elsewhere").mkdir(mode=0o700)
    (deck.folder / ".gpudeck").symlink_to(deck.folder.parent / "elsewhere")
    told = deck.go()
    assert (told.code, deck.engines_alive()) == (2, [])
    assert f"{deck.folder}/.gpudeck is a symbolic link" in told.err
    assert list((deck.folder.parent / "elsewhere").iterdir()) == []


@pytest.mark.parametrize("name", ["engine.log", "environment", "lock", "deck.db"])
def test_a_link_planted_in_the_state_folder_is_not_written_through(deck: Commanded, name: str) -> None:
    victim = deck.folder.parent / "victim"
    victim.write_text("precious")
    (deck.folder / ".gpudeck/tasks").mkdir(parents=True, mode=0o700)
    (deck.folder / ".gpudeck/tasks" / name).symlink_to(victim)
    deck.go()
    assert victim.read_text() == "precious"


def test_a_deck_of_another_user_is_named_as_theirs(place: Path) -> None:
    with commanded(place / "deck") as deck:
        deck.write(GATED)
        deck.gate()
        begin(deck)
        path = str(deck.folder / "tasks.toml")
        with_us = attach(path, RunOptions())
        assert with_us is not None
        with_us.close()
        said = as_nobody(lambda: str(attach(path, RunOptions())))
        assert said == f"{deck.folder}/.gpudeck/tasks belongs to root: set state_dir to a folder of yours"


# -- root in a user's folder -------------------------------------------------------------------------------------------

ROOT = "root's files in it would lock them out: run gpudeck as nobody, or give --as-root"


def test_root_starts_no_engine_in_a_users_folder_unless_told_so(theirs: Commanded) -> None:
    begin(theirs)
    assert theirs.command("stop", "--tasks").code == 0
    for words in ("unpause", "retry bad", "gpus drain 0", "engine tasks.toml", "env --refresh"):
        told = run_as(theirs, (), *words.split())
        assert told.code == 2, told
        assert ROOT in told.err
        assert owners(theirs) == {NOBODY.pw_uid}


def owners(deck: Commanded) -> set[int]:
    return {path.lstat().st_uid for path in (deck.folder / ".gpudeck").rglob("*")}


def test_root_looks_at_a_users_deck_and_leaves_no_file_in_it(theirs: Commanded) -> None:
    begin(theirs)
    assert theirs.command("stop", "--tasks").code == 0
    for words in (
        ["status"],
        ["ls"],
        ["show", "bad"],
        ["logs", "bad"],
        ["explain", "long"],
        ["env"],
        ["clean", "--dry-run"],
    ):
        assert run_as(theirs, (), *words).code == 0
    assert owners(theirs) == {NOBODY.pw_uid}


def test_root_talks_to_a_users_engine(theirs: Commanded) -> None:
    begin(theirs)
    told = run_as(theirs, (), "status")
    assert (told.code, "(detached)" in told.out) == (0, True)
    assert run_as(theirs, (), "cancel", "long").code == 0
    with watching(theirs) as seen:
        seen.until_states(long="cancelled")
    assert owners(theirs) == {NOBODY.pw_uid}


def test_root_told_so_runs_the_deck_and_its_owner_is_told_whose_engine_it_is(theirs: Commanded) -> None:
    begin(theirs)
    assert theirs.command("stop", "--tasks").code == 0
    del theirs.env["GPUDECK_SOCKET_DIR"]
    told = run_as(theirs, (), "unpause", "--as-root")
    assert told.code == 0, told.err
    engine = theirs.engine_pid()
    refused = theirs.command("status")
    assert (refused.code, f"engine {engine} is another user's, as /tmp/gpudeck-0 is" in refused.err) == (3, True)
    assert run_as(theirs, (), "stop", "--tasks").code == 0


def test_the_owner_goes_on_after_root_ran_the_deck(theirs: Commanded) -> None:
    begin(theirs)
    assert theirs.command("stop", "--tasks").code == 0
    assert run_as(theirs, (), "unpause", "--as-root").code == 0
    assert run_as(theirs, (), "stop", "--tasks").code == 0
    told = theirs.go()
    assert told.code == 0, told.err
    theirs.until_state("long", "running")


# -- the wire ----------------------------------------------------------------------------------------------------------


def test_a_whole_frame_over_the_limit_is_refused_too(deck: Commanded) -> None:
    begin(deck)
    long = b'{"id":1,"op":"explain","args":{"tasks":["' + b"x" * (2 * REQUEST_LIMIT) + b'"]}}\n'
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(20)
        client.connect(address_of(deck))
        with contextlib.suppress(OSError):
            client.sendall(long)
        said = b""
        with contextlib.suppress(OSError):
            while data := client.recv(65536):
                said += data
    assert b"at most" in said
    assert b"no such task" not in said


@pytest.mark.parametrize("headless", [True, False], ids=["headless", "detached"])
def test_nothing_listens_on_the_network(deck: Commanded, headless: bool) -> None:
    if headless:
        deck.start()
        until(lambda: held_by(str(deck.folder / ".gpudeck/tasks")))
        until(lambda: deck.lines("umask"))
    else:
        begin(deck)
    with watching(deck):
        assert sockets_of(deck.engine_pid(), "tcp", "tcp6", "udp", "udp6", "raw", "raw6") == set()
        assert sockets_of(deck.engine_pid(), "unix") != set()
    deck.gates[0].let()


def links_of(pid: int) -> list[str]:
    """What the process has open, but for what it closes meanwhile."""
    links: list[str] = []
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            links.append(os.readlink(entry))
    return links


def sockets_of(pid: int, *kinds: str) -> set[str]:
    """Inodes of the process's sockets of these kinds."""
    mine = {link.removeprefix("socket:[").rstrip("]") for link in links_of(pid) if link.startswith("socket:[")}
    column = {"unix": 6}
    found: set[str] = set()
    for kind in kinds:
        for line in Path(f"/proc/{pid}/net/{kind}").read_text().splitlines()[1:]:
            found.add(line.split()[column.get(kind, 9)])
    return mine & found
