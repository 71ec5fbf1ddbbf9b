"""A deck as one user has it: a task file that is edited, a box with GPUs of the driver's double, one terminal."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Generator
from pathlib import Path

import psutil

from gpudeck.engine.adapters.processes import proc
from gpudeck.engine.adapters.state.lock import Holder, held_by
from tests.commands.commands_rig import Commanded, Following
from tests.e2e.decks import GPUDECK, Ran, lives, until
from tests.e2e.live_rig import NOBODY, leave, use, with_cards
from tests.fakes.small_disk import SmallDisk, small_disk
from tests.fakes.tmux_screen import SHELL, TmuxScreen
from tests.faults.ledger import Attempt, Ledger

from .lots import CARDS
from .taskfile import NAMES, TaskFile

_KEPT_OUT = ("TMUX", "STY", "NO_COLOR", "COLUMNS", "LINES", "XDG_CONFIG_HOME", "COLORTERM", "LANG", "LC_CTYPE")
_THEIRS_MIB = 20_000
PLACE = "disk"
"""The folder of the deck's state and logs, on a disk of its own where one can be mounted."""


class UsedDeck(Commanded):
    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        home = folder / "home"
        home.mkdir()
        self.env |= {"HOME": str(home), "TERM": "xterm-256color", "LC_ALL": "C.UTF-8", "EDITOR": "true", "PAGER": "cat"}
        for name in _KEPT_OUT:
            self.env.pop(name, None)
        self.ledger = Ledger(folder)
        self.file = TaskFile(
            {"gpus": "all", "foreign_quiet": "0s", "state_dir": f"{PLACE}/state", "log_dir": f"{PLACE}/logs"}
        )
        self.box = with_cards(self, folder, CARDS)
        self.task_gates = {name: self.gate(f"gate.{name}") for name in NAMES}
        os.mkfifo(folder / "never")
        self.screen: TmuxScreen | None = None
        self.size: tuple[int, int] = (120, 40)
        self.disk: SmallDisk | None = None
        self.full = False
        self.heads: list[Following] = []
        """Headless engines."""
        self.termed: set[int] = set()
        """Pids of engines that were sent TERM."""
        self.cleaned = False
        """Logs of earlier attempts may be gone."""
        self.shared = False
        """Two tasks may be on one GPU."""
        self.unwrapped = False
        """A wrapper was killed: with the engine gone, too, only what the driver lists keeps the GPU of its task, and
        the double's lists none."""
        self.unsure: set[Attempt] = set()
        """Attempts that wrote while the disk was full."""
        self.unapplied = False
        """The file was edited since an engine or a command has read it."""
        self.closed: dict[str, str] = {}
        """Indices of GPUs on which nothing may start, and why, as of the last look."""
        self.looked_at = 0
        """So many attempts had begun then."""
        self._ended_before: set[Attempt] = set()
        self._colleagues: dict[int, subprocess.Popen[bytes]] = {}

    # -- what there is ------------------------------------------------------------------------------------------------

    @property
    def state_dir(self) -> Path:
        return self.folder / PLACE / "state" / "tasks"

    @property
    def log_dir(self) -> Path:
        return self.folder / PLACE / "logs"

    def holder(self, stem: str = "tasks") -> Holder | None:
        found = held_by(str(self.state_dir.with_name(stem)))
        return found if found is not None and lives(found.pid) else None  # its helpers have the lock a moment longer

    def run_command(self, *words: str) -> Ran:
        """A command to its end, which is one that is documented."""
        ran = self.command(*words)
        assert "Traceback" not in ran.err + ran.out, f"gpudeck {' '.join(words)}: {ran.err}{ran.out}"
        assert ran.code in (0, 1, 2, 3, 124, 130, 143), f"gpudeck {' '.join(words)}: {ran}"
        return ran

    def tokens(self) -> dict[str, list[int]]:
        """Pids of all that tasks of the file started and that lives, by the token of its attempt."""
        found: dict[str, list[int]] = {}
        for pid in self.living():
            with contextlib.suppress(OSError):
                items = Path(f"/proc/{pid}/environ").read_bytes().decode(errors="replace").split("\0")
                environ = dict(item.split("=", 1) for item in items if "=" in item)
                if environ.get("GPUDECK_TASK") in NAMES:
                    found.setdefault(environ["GPUDECK_TOKEN"], []).append(pid)
        return found

    def relatives(self) -> dict[int, str]:
        """All processes that were started from here and live, with their command lines: engines, helpers, tasks."""
        mark = f"HOME={self.env['HOME']}\0".encode()
        found: dict[int, str] = {}
        for pid in proc.everyone():
            with contextlib.suppress(OSError):
                if mark in Path(f"/proc/{pid}/environ").read_bytes() and lives(pid):
                    found[pid] = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
        return found

    # -- what is done to it -------------------------------------------------------------------------------------------

    def save(self) -> None:
        """The task file, as editors do it."""
        draft = self.folder / "tasks.toml.new"
        draft.write_text(self.file.text())
        os.replace(draft, self.folder / "tasks.toml")
        self.unapplied = True

    def open_screen(self) -> None:
        self.close_screen()
        self.screen = TmuxScreen(self.folder, self.env, self.size, SHELL)
        self.screen.until_shell()
        self.screen.type(GPUDECK)
        self.screen.until(
            lambda text: "q leave" in text or text.count("ready>") > 1, "the screen, or the shell again after a refusal"
        )

    def close_screen(self) -> None:
        """The terminal goes away."""
        if self.screen is not None:
            self.screen.close()
            self.screen = None

    def _has_left(self) -> bool:
        """Whether a child that heeds no TERM (`leave_deaf_child`) lives."""
        here = str(self.folder)
        found = psutil.process_iter(["cwd", "cmdline"])
        return any(one.info["cwd"] == here and "deaf." in " ".join(one.info["cmdline"] or ()) for one in found)

    def kill_engine(self) -> None:
        found = self.holder()
        if found is not None:
            self.shared |= self.unwrapped or self._has_left()  # what a task has left holds no GPU without an engine
            with contextlib.suppress(ProcessLookupError):
                os.kill(found.pid, 9)
            until(lambda: not lives(found.pid))

    def fill(self) -> None:
        if self.disk is not None and not self.full:
            self._ended_before = {line.who for line in self.ledger.lines("end")}
            self.full = True
            self.disk.fill()

    def empty(self) -> None:
        if self.disk is not None and self.full:
            self.disk.empty()
            self.full = False
            self.unsure |= {line.who for line in self.ledger.lines("begin")} - self._ended_before

    def join(self, card: int) -> None:
        """A colleague comes to a GPU."""
        if card not in self._colleagues:
            user = NOBODY.pw_uid if os.geteuid() == 0 else None
            self._colleagues[card] = subprocess.Popen(["sleep", "1000"], user=user, cwd="/")
            use(self.box, card, self._colleagues[card].pid, _THEIRS_MIB)

    def leave(self, card: int) -> None:
        if card in self._colleagues:
            leave(self.box, card)
            process = self._colleagues.pop(card)
            process.kill()
            process.wait()

    def other_engines(self) -> list[int]:
        """Of single commands."""
        found = self.holder()
        return [pid for pid in self.engines_alive() if found is None or pid != found.pid]

    def headless(self) -> list[Following]:
        """Those that run."""
        return [run for run in self.heads if run.process.poll() is None]

    def close_followers(self) -> None:
        for follower in self.followers:
            follower.close()

    def close(self) -> None:
        self.close_screen()
        for card in range(CARDS):
            self.leave(card)
        super().close()


@contextlib.contextmanager
def used_deck(folder: Path) -> Generator[UsedDeck]:
    """Nothing of it is left afterwards but its files."""
    folder.mkdir(parents=True, exist_ok=True)
    with contextlib.ExitStack() as stack:
        disk = None
        with contextlib.suppress(subprocess.CalledProcessError):  # no right to mount: the disk is never full
            disk = stack.enter_context(small_disk(folder / PLACE, megabytes=8, files=2000))
        deck = UsedDeck(folder)
        deck.disk = disk
        stack.callback(deck.close)
        yield deck
