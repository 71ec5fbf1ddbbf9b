"""The real `gpudeck` in tmux: keys are sent to it, what stands there is read. Nothing of a test survives it."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Generator, Mapping
from pathlib import Path

from gpudeck.engine.adapters.processes import proc
from tests.e2e.decks import GPUDECK
from tests.fakes.live_deck import DEADLINE_S, LiveDeck

PROMPT = "ready> "
KINDS = """
[deck]
gpus = "sim:3"
[[task]]
name = "{kind}"
matrix.kind = ["long", "bad", "later"]
command = ["sh", "run.sh", "{kind}"]
grace = "1s"
"""
"""`bad` fails until a file `good` is there, the others run until they are stopped."""
_RUN = """
echo "this is $1"
echo $1 >> ran
case $1 in
bad) [ -e good ] || exit 3;;
*) exec sleep 1000;;
esac
"""
SHELL = ("bash", "--norc", "--noprofile", "--noediting")


class TmuxScreen:
    """One window with a shell in it, in a tmux server of its own."""

    def __init__(self, folder: Path, env: Mapping[str, str], size: tuple[int, int], command: tuple[str, ...]) -> None:
        self._place = Path(tempfile.mkdtemp(prefix="gd-tmux-"))  # a socket's path must be short
        self._env = {**env, "ENV": "", "PS1": PROMPT, "TMUX_TMPDIR": str(self._place)}
        width, height = size
        self.tmux("new-session", "-d", "-x", str(width), "-y", str(height), "-c", str(folder), *command)
        self.tmux("set-option", "-g", "remain-on-exit", "on")

    def tmux(self, *words: str) -> str:
        argv = ("tmux", "-u", "-S", str(self._place / "s"), "-f", "/dev/null", *words)
        done = subprocess.run(argv, env=self._env, capture_output=True, text=True, check=False, timeout=DEADLINE_S)
        return done.stdout

    def press(self, *keys: str) -> None:
        """Keys as tmux names them: `q`, `C-c`, `Enter`."""
        for key in keys:
            self.tmux("send-keys", key)

    def type(self, line: str) -> None:
        """A line for the shell."""
        self.tmux("send-keys", "-l", line)
        self.press("Enter")

    def text(self) -> str:
        return self.tmux("capture-pane", "-p")

    def coloured(self) -> str:
        """With the escape sequences for colours."""
        return self.tmux("capture-pane", "-p", "-e")

    def until(self, holds: Callable[[str], object], what: str) -> str:
        """Wait until what stands on the terminal satisfies *holds*."""
        deadline = time.monotonic() + DEADLINE_S
        never = threading.Event()
        while not holds(text := self.text()):
            assert time.monotonic() < deadline, f"waited in vain: {what}\n{text}"
            never.wait(0.01)
        return text

    def until_seen(self, *parts: str) -> str:
        return self.until(lambda text: all(part in text for part in parts), f"{parts} on the terminal")

    def until_shell(self) -> str:
        """Wait until the shell has the terminal back."""
        return self.until(lambda text: text.rstrip().endswith(PROMPT.strip()), "the shell's prompt")

    def resize(self, width: int, height: int) -> None:
        self.tmux("resize-window", "-x", str(width), "-y", str(height))

    def answer(self, command: str) -> str:
        """What a command prints. The first one still has the exit code of what ran before it in `$?`."""
        self.type(f"said=$({command}); clear; echo $said; echo end-of-answer")
        text = self.until(
            lambda text: "end-of-answer\n" in text and "echo end-of-answer" not in text, f"the answer to {command}"
        )
        return text.partition("end-of-answer")[0].strip()

    def modes(self) -> dict[str, str]:
        """What a program may have left on: alternate screen, mouse, cursor."""
        names = ("alternate_on", "mouse_any_flag", "mouse_sgr_flag", "cursor_flag", "keypad_flag")
        told = self.tmux("display-message", "-p", " ".join(f"#{{{name}}}" for name in names)).split()
        return dict(zip(names, told, strict=True))

    def screens(self) -> list[int]:
        """Pids of `gpudeck` on this terminal."""
        shell = int(self.tmux("display-message", "-p", "#{pane_pid}"))
        return [pid for pid in proc.everyone() if _parent(pid) == shell and b"gpudeck" in _argv(pid)]

    def close_window(self) -> None:
        self.tmux("kill-session")

    def close(self) -> None:
        self.tmux("kill-server")
        shutil.rmtree(self._place, ignore_errors=True)


class TmuxDeck(LiveDeck):
    """A deck, and terminals to open it on."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        home = folder / "home"
        home.mkdir()
        self.env |= {"HOME": str(home), "TERM": "xterm-256color", "LC_ALL": "C.UTF-8"}
        for name in ("TMUX", "STY", "NO_COLOR", "COLUMNS", "LINES", "XDG_CONFIG_HOME", "COLORTERM", "LANG", "LC_CTYPE"):
            self.env.pop(name, None)
        self._terminals: list[TmuxScreen] = []

    def terminal(self, *, size: tuple[int, int] = (120, 40), command: tuple[str, ...] = SHELL) -> TmuxScreen:
        """A shell in the deck's folder."""
        found = TmuxScreen(self.folder, self.env, size, command)
        self._terminals.append(found)
        return found

    def screen(self, prefix: str = "", options: str = "", *, size: tuple[int, int] = (120, 40)) -> TmuxScreen:
        """`gpudeck` typed into a shell; *prefix*: what stands before it."""
        terminal = self.terminal(size=size)
        terminal.until_shell()
        terminal.type(f"{prefix} {GPUDECK} {options}".strip())
        return terminal

    def configure(self, text: str) -> None:
        """The user's config.toml."""
        folder = self.folder / "home" / ".config" / "gpudeck"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "config.toml").write_text(text)

    def ran(self) -> list[str]:
        """What the tasks of KINDS have noted down: one word for each start."""
        path = self.folder / "ran"
        return path.read_text().split() if path.exists() else []

    def until_task(self, name: str, *states: str) -> None:
        with self.client() as client:
            self.until_rows(client, lambda rows: rows[name].state in states)

    def kill_engine(self) -> int:
        pid = self.holder()
        os.kill(pid, signal.SIGKILL)
        return pid

    def close(self) -> None:
        for terminal in self._terminals:
            with contextlib.suppress(subprocess.TimeoutExpired):
                terminal.close()
        super().close()


@contextlib.contextmanager
def tmux_deck(folder: Path, text: str) -> Generator[TmuxDeck]:
    deck = TmuxDeck(folder)
    deck.write(text)
    try:
        yield deck
    finally:
        deck.close()


@contextlib.contextmanager
def kinds_deck(folder: Path) -> Generator[TmuxDeck]:
    """The deck of KINDS; no engine yet."""
    with tmux_deck(folder, KINDS) as deck:
        (folder / "run.sh").write_text(_RUN)
        yield deck


def _parent(pid: int) -> int:
    found = proc.stat(pid)
    return found.ppid if found is not None else 0


def _argv(pid: int) -> bytes:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    return b""
