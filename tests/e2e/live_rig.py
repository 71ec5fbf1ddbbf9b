"""Detached engines on boxes of the NVML double, on other hosts, and of other users. Needs root."""

from __future__ import annotations

import contextlib
import os
import pwd
import shlex
import shutil
import subprocess
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from pathlib import Path

from gpudeck.engine.client.attach import attach
from gpudeck.engine.client.connection import Connection
from gpudeck.engine.protocol.wire import GpuRow, TaskRow
from gpudeck.engine.taskfile.options import RunOptions
from tests.commands.commands_rig import Commanded
from tests.e2e.decks import GPUDECK, PATIENCE_S, Ran, put_on
from tests.fakes.nvml_double.box import Box

NOBODY = pwd.getpwnam("nobody")
NETWORK = Path(__file__).parents[1] / "fakes" / "network_mount"
"""On PYTHONPATH: folders that GPUDECK_TEST_NETWORK names are on nfs4, as /proc/self/mountinfo tells it."""


@contextlib.contextmanager
def commanded(folder: Path) -> Generator[Commanded]:
    """A deck in *folder*; none of its engines outlives the test."""
    deck = Commanded(folder)
    try:
        yield deck
    finally:
        deck.close()
    assert deck.engines_alive() == []


def with_cards(deck: Commanded, folder: Path, cards: int) -> Box:
    """Give the deck a box with so many cards."""
    box = Box(folder / "box.txt", cards)
    put_on(deck, box, detached=True)
    return box


def use(box: Box, card: int, pid: int, mib: int) -> None:
    """A process is on the card with so much memory, and nothing else is. It is listed before its memory is counted: a
    look between the two shall not find memory of nobody."""
    box.processes(card, f"{pid} {mib} C")
    box.set(**{f"gpu.{card}.used": mib + 4})


def leave(box: Box, card: int) -> None:
    box.set(**{f"gpu.{card}.used": 4})
    box.processes(card)


@contextlib.contextmanager
def colleague() -> Generator[int]:
    """The pid of a process of another user's."""
    process = subprocess.Popen(["sleep", "300"], user=NOBODY.pw_uid, cwd="/")
    try:
        yield process.pid
    finally:
        process.kill()
        process.wait()


class Watcher:
    """A client that follows the deck."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.notes: list[str] = []
        connection.watch(events=True)
        for _ in connection.messages():
            if connection.picture is not None and connection.picture.whole:
                break

    @property
    def rows(self) -> Mapping[str, TaskRow]:
        assert self.connection.picture is not None
        return self.connection.picture.by_name()

    @property
    def gpus(self) -> Mapping[int, GpuRow]:
        assert self.connection.picture is not None
        return {gpu.index: gpu for gpu in self.connection.picture.gpus}

    def gpu(self, index: int) -> GpuRow:
        return self.gpus[index]

    def until(self, holds: Callable[[], object]) -> None:
        """Take in what the engine tells until *holds*."""
        deadline = time.monotonic() + PATIENCE_S
        while not holds():
            picture = self.connection.picture
            assert picture is not None
            seen = {name: (row.state, row.gpus, row.reason) for name, row in picture.by_name().items()}
            assert time.monotonic() < deadline, (seen, [gpu.note for gpu in picture.gpus], self.notes)
            for message in self.connection.messages(0.1):
                event = getattr(message, "event", {})
                if event.get("event") == "note":
                    self.notes.append(event["text"])
                break

    def until_states(self, **states: str) -> None:
        self.until(lambda: states.items() <= {name: row.state for name, row in self.rows.items()}.items())

    def until_note(self, part: str) -> str:
        self.until(lambda: any(part in note for note in self.notes))
        return next(note for note in self.notes if part in note)

    def why(self, task: str) -> str:
        """What `gpudeck explain` says."""
        return "\n".join(one["text"] for one in self.connection.request("explain", tasks=[task])[task])

    def until_waits_for(self, task: str, part: str) -> None:
        self.until(lambda: part in self.why(task))


@contextlib.contextmanager
def watching(deck: Commanded) -> Generator[Watcher]:
    connection = attach(str(deck.folder / "tasks.toml"), RunOptions())
    assert connection is not None, "no engine runs"
    with connection:
        yield Watcher(connection)


# -- other hosts, other users -----------------------------------------------------------------------------------------


def host_files(name: str, folder: Path, *, machine: str = "", boot: str = "") -> dict[str, str]:
    """A machine id and a boot of its own, unless it is said which: the files of a host, by the places they are in."""
    folder.mkdir(exist_ok=True)
    (folder / f"{name}.machine").write_text(machine or f"{name:0>32}\n")
    (folder / f"{name}.boot").write_text(f"{boot or name:0>36}\n")
    return {"/etc/machine-id": f"{folder}/{name}.machine", "/proc/sys/kernel/random/boot_id": f"{folder}/{name}.boot"}


def run_on(deck: Commanded, host: Mapping[str, str], *words: str) -> Ran:
    """A command of the deck on another host: its name, its files, and its own ~/.local/state as XDG_STATE_HOME."""
    before, seen = deck.seams, {key: value for key, value in host.items() if key != "XDG_STATE_HOME"}
    deck.seams = {**before, "host": seen}
    try:
        return deck.command(*words, env={key: host[key] for key in host.keys() - seen.keys()})
    finally:
        deck.seams = before


def in_container(name: str, folder: Path) -> tuple[str, ...]:
    """What goes before a command so that it runs in another pid namespace of this boot."""
    machine = shlex.quote(host_files(name, folder)["/etc/machine-id"])
    lines = ["set -e", f"hostname {name}", f"test ! -e /etc/machine-id || mount --bind {machine} /etc/machine-id"]
    own = ("--uts", "--mount", "--pid", "--fork", "--mount-proc", "--kill-child")
    return ("unshare", *own, "sh", "-c", "\n".join([*lines, 'exec "$@"']), "sh")


def as_user(command: Sequence[str] = (GPUDECK,), uid: int = NOBODY.pw_uid) -> tuple[str, ...]:
    """The command as another user, who may read everything (the interpreter may lie in root's home) and write only
    what is theirs."""
    reads = ("--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search")
    ids = (f"--reuid={uid}", f"--regid={NOBODY.pw_gid}", "--clear-groups")
    return ("setpriv", *ids, *reads, *command)


def give(path: Path, uid: int = NOBODY.pw_uid) -> None:
    """The folder and what is in it belongs to the other user."""
    for each in (path, *path.rglob("*")):
        shutil.chown(each, uid, NOBODY.pw_gid)


def run_as(deck: Commanded, prefix: Sequence[str], *words: str) -> Ran:
    """A command of the deck behind *prefix*."""
    before = deck.prefix
    deck.prefix = (*prefix, *(() if GPUDECK in prefix else (GPUDECK,)))
    try:
        return deck.command(*words)
    finally:
        deck.prefix = before


def files_with(folder: Path, *texts: str) -> set[str]:
    """Names of all files below that have one of the texts in them, relative to *folder*."""
    found: set[str] = set()
    for place, _, names in os.walk(folder):
        for name in names:
            path = Path(place, name)
            if path.is_file() and any(text.encode() in path.read_bytes() for text in texts):
                found.add(str(path.relative_to(folder)))
    return found
