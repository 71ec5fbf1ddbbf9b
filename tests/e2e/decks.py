"""Decks run as users run them: the gpudeck command on a task file, in a folder of its own."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from gpudeck.engine.adapters.journal.db import look_at
from gpudeck.engine.core.events import Fact
from tests.fakes import forked
from tests.fakes.nvml_double.box import Box
from tests.fakes.nvml_double.build import outside

GPUDECK = str(Path(sys.executable).with_name("gpudeck"))
PATIENCE_S = 60.0

Event = dict[str, Any]
_T = TypeVar("_T")


def until(condition: Callable[[], _T], patience_s: float = PATIENCE_S) -> _T:
    """Wait until *condition* is true; returns what it said."""
    deadline = time.monotonic() + patience_s
    never = threading.Event()
    while not (found := condition()):
        assert time.monotonic() < deadline, "what was waited for did not happen"
        never.wait(0.01)
    return found


def caller_environment() -> dict[str, str]:
    """The caller's, without what would change how a deck runs or speaks."""
    drop = ("GITHUB_", "GPUDECK_", "SLURM_")
    env = {name: value for name, value in os.environ.items() if not name.startswith(drop)}
    for name in ("CUDA_VISIBLE_DEVICES", "CI", "FORCE_COLOR"):
        env.pop(name, None)
    if locks := os.environ.get("GPUDECK_LOCK_DIR"):
        env["GPUDECK_LOCK_DIR"] = locks  # tests have a box of their own
    return env


@dataclass
class Ran:
    """One command that ended."""

    code: int
    out: str
    err: str

    @property
    def events(self) -> list[Event]:
        """The JSON lines."""
        return [json.loads(line) for line in self.out.splitlines()]

    @property
    def rows(self) -> dict[str, Event]:
        """The result of each task."""
        return {event["task"]: event for event in self.events if event["event"] == "task_result"}

    @property
    def states(self) -> dict[str, str]:
        return {task: row["state"] for task, row in self.rows.items()}

    @property
    def started(self) -> list[str]:
        """Tasks in the order of their starts."""
        return [event["task"] for event in self.events if event["event"] == "task_started"]

    @property
    def notes(self) -> str:
        """Everything said beside what happened to tasks."""
        texts = [event["text"] for event in self.events if event["event"] == "note"]
        return "\n".join([*texts, *(warning for event in self.events for warning in event.get("warnings", ()))])

    def ended(self, task: str) -> list[Event]:
        """The ends of a task's attempts."""
        return [event for event in self.events if event["event"] == "task_ended" and event["task"] == task]


class Engine:
    """A headless engine that runs; its JSON lines are read as they come."""

    def __init__(self, process: subprocess.Popen[str] | forked.Forked) -> None:
        self.process = process
        self.pid = process.pid
        self.events: list[Event] = []
        self._lines: list[str] = []
        self._err: list[str] = []
        self._news = threading.Condition()
        self._readers = [threading.Thread(target=self._read), threading.Thread(target=self._read_err)]
        for reader in self._readers:
            reader.start()

    def event(self, kind: str, **fields: object) -> Event:
        """The first event of this kind with these fields, once it has come."""

        def matches(event: Event) -> bool:
            return event["event"] == kind and all(event.get(name) == value for name, value in fields.items())

        return self.first(matches)

    def first(self, matches: Callable[[Event], bool]) -> Event:
        with self._news:
            found = self._news.wait_for(
                lambda: next((event for event in self.events if matches(event)), None) or self._over(), PATIENCE_S
            )
        assert isinstance(found, dict), f"the event did not come\n{''.join(self._lines)}{''.join(self._err)}"
        return found

    def started(self, *tasks: str) -> None:
        for task in tasks:
            self.event("task_started", task=task)

    def ended(self, task: str, **fields: object) -> Event:
        return self.event("task_ended", task=task, **fields)

    def note(self, part: str) -> Event:
        """A note that has *part* in its text."""
        return self.first(lambda event: event["event"] == "note" and part in event["text"])

    def count(self, kind: str) -> int:
        return sum(event["event"] == kind for event in self.events)

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def kill(self) -> None:
        """kill -9, and wait until it is gone."""
        self.process.kill()
        self.finish()

    def finish(self) -> Ran:
        """Wait for its end."""
        code = self.process.wait(PATIENCE_S)
        for reader in self._readers:
            reader.join(PATIENCE_S)
        return Ran(code, "".join(self._lines), "".join(self._err))

    def _over(self) -> bool:
        return self.process.poll() is not None and not self._readers[0].is_alive()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            with self._news:
                self._lines.append(line)
                if line.endswith("\n"):
                    self.events.append(json.loads(line))
                self._news.notify_all()
        with self._news:
            self._news.notify_all()

    def _read_err(self) -> None:
        assert self.process.stderr is not None
        self._err.extend(self.process.stderr)


class Gate:
    """A named pipe that tasks wait at: `read _ <NAME` returns once a test lets one pass."""

    def __init__(self, path: Path) -> None:
        os.mkfifo(path)
        self._fd = os.open(path, os.O_RDWR)

    def let(self, count: int = 1) -> None:
        os.write(self._fd, b"\n" * count)

    def close(self) -> None:
        os.close(self._fd)


@dataclass
class Deck:
    """A folder with a task file."""

    folder: Path
    env: dict[str, str] = field(default_factory=caller_environment)
    prefix: tuple[str, ...] = (GPUDECK,)
    """What starts gpudeck; another one than this is started as a process, not forked."""
    processes: str = ""
    """Why a test needs true processes, each with an interpreter of its own."""
    seams: Mapping[str, Any] = field(default_factory=lambda: forked.QUICK)
    """Of what is forked, and of the engines that it starts: `engine_seams`."""
    engines: list[Engine] = field(default_factory=list[Engine])
    gates: list[Gate] = field(default_factory=list[Gate])

    def __post_init__(self) -> None:
        """A box of its own: what other decks of this machine have is not in its way."""
        self.env["GPUDECK_LOCK_DIR"] = f"{self.folder}.locks"
        self.env["XDG_STATE_HOME"] = str(self.queue_folder.parent)

    @property
    def queue_folder(self) -> Path:
        """Where single commands have their task file, state and logs."""
        return self.folder / ".home" / "gpudeck"

    def write(self, text: str, name: str = "tasks.toml") -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / name).write_text(textwrap.dedent(text))

    def move(self) -> None:
        """Its folder has another name from now on."""
        self.folder = self.folder.rename(self.folder.with_name(f"{self.folder.name}-moved"))

    def tune(self, module: str, **constants: Any) -> None:
        """From now on engines have such constants of a module below gpudeck: `tune("engine.idle", IDLE_S=0.1)`."""
        self.seams = forked.tuned(self.seams, module, **constants)

    def command(self, *words: str, env: Mapping[str, str] | None = None, **more: Any) -> Ran:
        """Any gpudeck command, to its end."""
        env = {**self.env, **(env or {})}
        if not more and self.forks(env):
            done = forked.run(words, cwd=self.folder, env=env, timeout=PATIENCE_S * 2, seams=self.seams)
            return Ran(done.returncode, done.stdout.decode(), done.stderr.decode())
        done = subprocess.run(
            [*self.prefix, *words],
            cwd=self.folder,
            env=env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=PATIENCE_S * 2,
            check=False,
            **more,
        )
        return Ran(done.returncode, done.stdout.decode(), done.stderr.decode())

    def run(self, *options: str, file: str = "tasks.toml", **more: Any) -> Ran:
        """The deck, for machines, to its end."""
        return self.command("--headless", file, "--json", *options, **more)

    def start(self, *options: str, file: str = "tasks.toml", env: Mapping[str, str] | None = None) -> Engine:
        """The deck, for machines; the test goes on."""
        env = {**self.env, **(env or {})}
        words = ["--headless", file, "--json", *options]
        process: subprocess.Popen[str] | forked.Forked
        if self.forks(env):
            process = forked.popen(words, cwd=self.folder, env=env, seams=self.seams)
        else:
            process = subprocess.Popen(
                [*self.prefix, *words],
                cwd=self.folder,
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
        self.engines.append(Engine(process))
        return self.engines[-1]

    def forks(self, env: Mapping[str, str]) -> bool:
        """Whether its commands come from the fork server."""
        return not self.processes and self.prefix == (GPUDECK,) and forked.can_fork(env)

    def gate(self, name: str = "gate") -> Gate:
        self.gates.append(Gate(self.folder / name))
        return self.gates[-1]

    def text(self, name: str) -> str:
        return (self.folder / name).read_text(errors="replace")

    def lines(self, name: str) -> list[str]:
        """Lines of a file that tasks append to; none where it does not exist yet."""
        path = self.folder / name
        return path.read_text().splitlines() if path.exists() else []

    def record(self, task: str, attempt: int = 1) -> Event:
        """attempt-N.json."""
        return json.loads(self.text(f"logs/{task}/attempt-{attempt}.json"))

    def curves(self, task: str, attempt: int = 1) -> dict[str, list[list[float]]]:
        """The points that attempt-N.curves.json keeps, by metric."""
        kept = json.loads(self.text(f"logs/{task}/attempt-{attempt}.curves.json"))["curves"]
        return {curve["name"]: curve["points"] for curve in kept}

    def facts(self, stem: str = "tasks") -> list[Fact]:
        facts, damage = look_at(str(self.folder / ".gpudeck" / stem / "deck.db"))
        assert damage == ""
        return facts

    def living(self) -> list[int]:
        """Pids of everything that the deck's tasks started and that lives."""
        mark = f"GPUDECK_LOG={self.folder}/".encode()
        return [pid for pid in _pids() if mark in _environ(pid)]

    def kill_living(self) -> list[int]:
        """Kill these; more may come of what is just being started. Returns which there were."""
        found = self.living()
        for pid in found:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return found

    def close(self) -> None:
        """End what a test that failed has left."""
        for engine in self.engines:
            engine.process.kill()
            engine.finish()
        self.kill_living()
        for gate in self.gates:
            gate.close()


def put_on(deck: Deck, box: Box, *, detached: bool = False) -> None:
    """The deck sees the cards of *box*. *detached*: so do its engines that commands start."""
    code, environment = outside(box)
    assert not (code and detached), "a detached engine finds the double as a library: this needs a C compiler"
    deck.env |= {name: environment[name] for name in ("LD_LIBRARY_PATH", "GPUDECK_NVML_DOUBLE") if name in environment}
    if code:
        start = Path(box.path).with_name("start.py")
        start.write_text(f"{code}import sys\nfrom gpudeck.cli.main import main\nsys.exit(main())\n")
        deck.prefix = (str(Path(GPUDECK).with_name("python")), str(start))


@contextlib.contextmanager
def deck_in(folder: Path) -> Iterator[Deck]:
    deck = Deck(folder)
    try:
        yield deck
    finally:
        deck.close()


def lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def _pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdecimal()]


def _environ(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes() if lives(pid) else b""
    except OSError:
        return b""
