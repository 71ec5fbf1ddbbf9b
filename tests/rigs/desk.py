"""A deck in the test's own process: the real engine on the test's loop with its real journal and socket, a launcher
without processes, a clock that the test moves, and real commands in a thread, which meet the engine at its socket.

    @at_desk(MIXED, {"bad": 3})
    async def test_a_failed_task_runs_again(desk: Desk) -> None:
        await desk.start()
        await desk.until_state("bad", "failed")
        assert (await desk.command("retry", "bad")).out == …
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import os
import signal
import sys
import tempfile
import threading
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from typing import Any, TextIO

import gpudeck.engine.engine as engine_module
from gpudeck.cli.arguments import parse
from gpudeck.cli.commands import stop
from gpudeck.cli.main import main
from gpudeck.engine import parts
from gpudeck.engine.adapters import host
from gpudeck.engine.client import detach
from gpudeck.engine.client.attach import attach
from gpudeck.engine.client.connection import Connection
from gpudeck.engine.client.files import task_file
from gpudeck.engine.command import Command
from gpudeck.engine.core.events import Fact
from gpudeck.engine.decks.opening import OpenDeck, open_deck
from gpudeck.engine.decks.options import Purpose, decode
from gpudeck.engine.ending import Mode
from gpudeck.engine.engine import Engine
from gpudeck.engine.errors import DeckError
from gpudeck.engine.headless.output import LogOutput
from gpudeck.engine.logs import follow, helper
from gpudeck.engine.ports import Instant, JournalBrokenError, Launcher, Sink, StartOrder
from gpudeck.engine.results import results
from gpudeck.engine.taskfile.options import RunOptions
from tests.e2e.decks import Deck, Ran
from tests.fakes import forked
from tests.fakes.launcher import FakeLauncher
from tests.fakes.loop_rig import AtOnce, FakeAlarm
from tests.rigs.entered import entered

PATIENCE_S = 20.0
_SWITCH_S = 0.0005
"""Threads take turns as an engine lets them."""
_MOMENT_S = 0.001
"""Passes with each command and each start of an engine: what comes later is later by the clock, too."""
_NO_PROCESS = 1 << 30
"""A pid that no process has."""
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1)


@dataclass(frozen=True, slots=True)
class Ends:
    """How attempts of a task end, as soon as they have begun."""

    code: int = 0
    out: str = ""
    err: str = ""


class Desk:
    """One deck. Nothing happens to it while a test does not wait for anything."""

    def __init__(self, folder: Path, ends: Mapping[str, Ends]) -> None:
        self.folder = folder
        self.ending = dict(ends)
        """Tasks whose attempts end by themselves, and how; others run until `ends`."""
        self.env = Deck(folder).env
        self.clock = _Clock()
        self.started: list[str] = []
        """Tasks that were started, in order, by whatever engine."""
        self.launcher: FakeLauncher | None = None
        self.engines = 0
        """How many were started so far."""
        self._loop = asyncio.get_running_loop()
        self._opened: OpenDeck | None = None
        self._engine: Engine | None = None
        self._run: asyncio.Task[int] | None = None
        self._alarms: list[FakeAlarm] = []
        self._threads = ThreadPoolExecutor(thread_name_prefix="desk")
        self._typed: list[Typed] = []

    # -- files

    def write(self, text: str, name: str = "tasks.toml") -> None:
        Deck(self.folder, env=self.env).write(text, name)

    def text(self, name: str) -> str:
        return (self.folder / name).read_text(errors="replace")

    def facts(self, stem: str = "tasks") -> list[Fact]:
        """All that is in the journal."""
        return Deck(self.folder, env=self.env).facts(stem)

    # -- commands

    async def command(self, *words: str, env: Mapping[str, str] | None = None, keys: str | None = None) -> Ran:
        """Any gpudeck command, to its end. *keys*: the line that is typed at the terminal that is its stdin then."""
        return await self.begin(*words, env=env, keys=keys).finish()

    def begin(
        self, *words: str, env: Mapping[str, str] | None = None, keys: str | None = None, terminal: bool = False
    ) -> Typed:
        """A command that goes on while the test does. *terminal*: what it prints goes to one."""
        self.clock.boot_s += _MOMENT_S
        typed = Typed(self, words, {**self.env, **(env or {})}, keys, terminal=terminal)
        self._typed.append(typed)
        typed.future = self._loop.run_in_executor(self._threads, typed.run)
        return typed

    async def connection(self) -> Connection:
        """Another program that is attached to the engine; blocks until it is answered, so ask it in a thread."""

        def connect() -> Connection:
            connection = attach(str(self.folder / "tasks.toml"), RunOptions())
            assert connection is not None, "no engine runs"
            return connection

        return await self._loop.run_in_executor(self._threads, connect)

    async def request(self, op: str, **args: Any) -> Any:
        """Ask the engine as other programs do. Raises DeckError."""
        with await self.connection() as connection:
            return await self._loop.run_in_executor(self._threads, lambda: connection.request(op, **args))

    async def told(self, *words: str, code: int = 0) -> Any:
        """What a command tells with --json."""
        done = await self.command(words[0], "--json", *words[1:])
        assert done.code == code, done.err
        return json.loads(done.out)

    async def rows(self, *selectors: str) -> dict[str, dict[str, Any]]:
        """`gpudeck ls --json` by name."""
        return {row["name"]: row for row in await self.told("ls", *selectors)}

    async def row(self, name: str) -> dict[str, Any]:
        return (await self.rows(name))[name]

    # -- engines

    @property
    def runs(self) -> bool:
        """Whether there is an engine now."""
        return self._run is not None and not self._run.done()

    async def start(self, *words: str, purpose: Purpose = "look") -> None:
        """A detached engine under the run options *words*, to which nobody has come yet."""
        await self._serve(parse(["--headless", *words]), "detached", purpose=purpose)

    async def serve(self, *words: str, env: Mapping[str, str] | None = None) -> None:
        """The same, by the words of `gpudeck engine` itself."""
        command = parse(words)
        await self._serve(command, "detached", env, purpose=command.given.get("purpose", "look"))

    async def run(self, *words: str) -> int:
        """A headless run, to its end; returns its exit code."""
        await self._serve(parse(["--headless", *words]), "headless", purpose="headless")
        return await self.over()

    async def over(self) -> int:
        """Wait until the engine has ended; returns its exit code."""
        assert self._run is not None, "no engine was started"
        return await asyncio.wait_for(asyncio.shield(self._run), PATIENCE_S)

    async def leave(self) -> None:
        """End the engine and no task."""
        if self.runs and self._engine is not None:
            self._engine._ending.leave("the test")  # pyright: ignore[reportPrivateUsage]
            await self.over()

    # -- tasks

    def state(self, name: str) -> str:
        """As the engine has it, or the last one had it."""
        assert self._opened is not None, "no engine was started"
        return type(self._opened.deck.by_name[name].phase).__name__.lower()

    def in_state(self, state: str) -> list[str]:
        assert self._opened is not None, "no engine was started"
        return [task.name for task in self._opened.deck.tasks if self.state(task.name) == state]

    async def until(self, condition: Callable[[], object]) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not condition():
            assert time.monotonic() < deadline, "what was waited for did not happen"
            await asyncio.sleep(0.0005)

    async def until_state(self, name: str, *states: str) -> None:
        await self.until(lambda: self.state(name) in states)

    def order(self, name: str) -> StartOrder:
        """What the newest attempt of a task was started with."""
        assert self.launcher is not None, "nothing was started"
        return next(order for order in reversed(self.launcher.orders) if order.env["GPUDECK_TASK"] == name)

    async def ends(self, name: str, code: int = 0, *, out: str = "", err: str = "") -> None:
        """What runs of a task ends, where no engine runs, unseen."""
        assert self.launcher is not None, "nothing was started"
        await self.until(lambda: self.state(name) in ("running", "stopping"))
        self.launcher.recovered_code = code
        self._end(self.launcher, self.order(name), Ends(code, out, err))
        await self.settle()

    # -- time

    async def settle(self) -> None:
        """Let the engine do all that it can without time passing."""
        while self._opened is not None and self.runs:
            before = self._opened.journal.count
            for _ in range(5):
                await asyncio.sleep(0)
                await self._on_disk(self._opened)
            if self._opened.journal.count == before:
                return

    async def later(self, seconds: float) -> None:
        """So much time passes at once."""
        await self.settle()
        self.clock.boot_s += seconds
        for alarm in self._alarms:
            if alarm.at is not None and alarm.at <= self.clock.boot_s:
                alarm.ring()
        await asyncio.sleep(0)
        await self.settle()

    async def until_in_time(self, condition: Callable[[], object]) -> None:
        """Seconds pass until it holds: for whoever follows at a pace of their own."""
        deadline = time.monotonic() + PATIENCE_S
        while not condition():
            assert time.monotonic() < deadline, "what was waited for did not happen as time went on"
            await self.later(1)
            await asyncio.sleep(0.01)

    async def close(self) -> None:
        """End the engine and every command."""
        await self.leave()
        for typed in self._typed:
            typed.type("")  # nobody types any more
            await typed.finish()
            typed.close()
        self._threads.shutdown()
        if self._run is not None and self._run.done():
            self._run.result()

    # -- in the place of processes

    def patches(self) -> Sequence[tuple[object, str, object]]:
        """What an engine is composed of here: (where, name, what)."""
        return (
            (engine_module, "launcher_of", self._launcher_of),
            (engine_module, "Alarm", self._make_alarm),
            (engine_module, "become_subreaper", lambda: None),
            (engine_module, "settle", lambda: None),
            (engine_module, "tidy", lambda: None),
            (parts, "Background", lambda _: AtOnce()),
            (host, "SystemClock", lambda: self.clock),
            (host, "boottime_s", lambda: self.clock.boot_s),
            (time, "time", lambda: self.clock.now().wall_s),
            (helper, "subprocess", _Helpers()),
            (follow, "limited_cpu", lambda _: contextlib.nullcontext()),  # by a signal, which threads do not get
            (results, "limited_cpu", lambda _: contextlib.nullcontext()),
            (detach, "_start", self._start_asked),
            (stop, "stat", lambda _: None),
            (self._loop, "time", self.clock.moved(self._loop.time)),
            (sys, "stdout", _ByThread("out", sys.stdout)),
            (sys, "stderr", _ByThread("err", sys.stderr)),
            (sys, "stdin", _ByThread("keys", sys.stdin)),
        )

    def _launcher_of(self, opened: OpenDeck, loop: object, claims: object, sink: Sink, note: object) -> Launcher:  # noqa: ARG002
        before = self.launcher
        self.launcher = _Launcher(sink, lambda: self.clock.boot_s, obedient=True)
        self.launcher.began = self._began
        if before is not None:
            tokens = [order.token for order in before.orders]
            self.launcher.fates = {token: "adopted" if token in before.running else "ended" for token in tokens}
            self.launcher.recovered_code = before.recovered_code
            self.launcher.orders = before.orders
        return self.launcher

    def _began(self, launcher: FakeLauncher, order: StartOrder) -> None:
        name = order.env["GPUDECK_TASK"]
        self.started.append(name)
        if (ends := self.ending.get(name)) is not None:
            self._loop.call_soon(self._end, launcher, order, ends)

    def _end(self, launcher: FakeLauncher, order: StartOrder, ends: Ends) -> None:
        for path, text in ((order.stdout, ends.out), (order.stderr, ends.err)):
            with open(path, "a") as log:
                log.write(text)
        if order.token in launcher.running:
            launcher.end(order.token, ends.code)

    def _make_alarm(self, loop: asyncio.AbstractEventLoop, ring: Callable[[], None]) -> FakeAlarm:
        self._alarms.append(_Alarm(ring, self.clock, loop))
        return self._alarms[-1]

    def _start_asked(self, argv: Sequence[str], cwd: str, env: Mapping[str, str], log_path: str) -> int:  # noqa: ARG002
        """A command starts an engine. In its thread; returns a pid."""
        start = self.serve(*argv[argv.index("engine") :], env=env)
        try:
            asyncio.run_coroutine_threadsafe(start, self._loop).result(PATIENCE_S)
        except DeckError as error:
            Path(log_path).write_text(f"{error}\nexit {error.exit_code}\n")
            return _NO_PROCESS
        return os.getpid()

    async def _serve(
        self, command: Command, mode: Mode, env: Mapping[str, str] | None = None, *, purpose: Purpose
    ) -> None:
        """As `cli.run_engine` does it."""
        assert not self.runs, "there is an engine"
        self.clock.boot_s += _MOMENT_S
        path, said = task_file(command), command.given.get("options")
        self._opened = open_deck(
            path,
            command.options() if said is None else decode(said),
            dict(env or self.env),
            as_root=command.flag("as_root"),
            takeover=command.flag("takeover"),
            purpose=purpose,
        )
        settings = self._opened.file.settings
        os.makedirs(settings.log_dir, exist_ok=True)
        output = LogOutput(os.path.join(settings.log_dir, "deck.log"))
        self.engines += 1
        self._engine = Engine(self._opened, output.show, cwd=os.path.dirname(path), mode=mode)
        takes = ["failed", "changed", "stale", *([] if settings.skip_existing else ["all"])]
        run = self._engine.run(takes=takes if mode == "headless" else None, status_period_s=0, purpose=purpose)
        run_over = self._run = asyncio.create_task(self._see_through(run, output))
        lock = self._opened.lock
        await self.until(lambda: lock.holder.address or run_over.done())

    @staticmethod
    async def _see_through(run: Awaitable[int], output: LogOutput) -> int:
        with output:
            return await run

    async def _on_disk(self, opened: OpenDeck) -> None:
        written = asyncio.Event()
        with contextlib.suppress(JournalBrokenError):  # the engine has just ended
            opened.journal.submit((), durable=True, done=lambda _: self._loop.call_soon_threadsafe(written.set))
            await written.wait()


class Typed:
    """One command, in a thread of its own."""

    future: asyncio.Future[int]

    def __init__(
        self, desk: Desk, words: Sequence[str], env: Mapping[str, str], keys: str | None, *, terminal: bool
    ) -> None:
        self._desk = desk
        self._words = list(words)
        self._env = env
        self.out, self.err = (_Printed(terminal=terminal) for _ in range(2))
        self.keys = _Keys(terminal=keys is not None or terminal)
        if keys:
            self.keys.type(keys)

    @property
    def said(self) -> str:
        """All that it has printed."""
        return self.out.told() + self.err.told()

    def type(self, line: str) -> None:
        self.keys.type(line)

    async def until(self, text: str) -> None:
        """It has printed *text*."""
        await self._desk.until(lambda: text in self.said or self.future.done())
        assert text in self.said, self.said

    async def finish(self) -> Ran:
        code = await asyncio.wait_for(asyncio.shield(self.future), PATIENCE_S)
        return Ran(code, self.out.told(), self.err.told())

    def close(self) -> None:
        self.out.close()
        self.err.close()

    def run(self) -> int:
        """In the thread."""
        _streams.typed = self
        os.environ.update(self._env)
        for name in set(os.environ) - set(self._env):
            del os.environ[name]
        try:
            return main(self._words)
        except SystemExit as error:
            return error.code if isinstance(error.code, int) else bool(error.code)
        finally:
            _streams.typed = None
            self.out.flush()
            self.err.flush()


_streams = threading.local()


class _ByThread:
    """A standard stream: that of the command whose thread asks, else what it was."""

    def __init__(self, name: str, before: TextIO) -> None:
        self._name = name
        self._before = before

    def __getattr__(self, name: str) -> Any:
        typed: Typed | None = getattr(_streams, "typed", None)
        return getattr(self._before if typed is None else getattr(typed, self._name), name)


class _Printed(io.TextIOWrapper):
    """What a command prints: a file, which may say that it is a terminal."""

    def __init__(self, *, terminal: bool) -> None:
        file = tempfile.TemporaryFile()  # noqa: SIM115
        super().__init__(file, encoding="utf-8", errors="backslashreplace", line_buffering=terminal)
        self._terminal = terminal

    def isatty(self) -> bool:
        return self._terminal

    def told(self) -> str:
        fd = self.fileno()
        return os.pread(fd, os.fstat(fd).st_size, 0).decode()


class _Keys:
    """What is typed; the end of a file where nobody can type."""

    closed = False

    def __init__(self, *, terminal: bool) -> None:
        self._terminal = terminal
        self._lines: SimpleQueue[str] = SimpleQueue()

    def isatty(self) -> bool:
        return self._terminal

    def type(self, line: str) -> None:
        self._lines.put(line)

    def readline(self) -> str:
        return self._lines.get() if self._terminal else ""


class _Clock:
    """Stands still until a test moves it. The loop's own goes on, and is moved with it."""

    def __init__(self) -> None:
        self._since_s = self.boot_s = host.boottime_s()
        self._wall_s = time.time()

    def now(self) -> Instant:
        return Instant(self.boot_s, self._wall_s + self.boot_s - self._since_s)

    def moved(self, clock: Callable[[], float]) -> Callable[[], float]:
        return lambda: clock() + self.boot_s - self._since_s


class _Alarm(FakeAlarm):
    """Rings at once for what is over."""

    def __init__(self, ring: Callable[[], None], clock: _Clock, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(ring)
        self._clock = clock
        self._loop = loop

    def set(self, at: float | None) -> None:
        super().set(at)
        if at is not None and at <= self._clock.boot_s:
            self._loop.call_soon(self.ring)


class _Launcher(FakeLauncher):
    began: Callable[[FakeLauncher, StartOrder], None]

    def start(self, order: StartOrder) -> tuple[int, int] | None:
        started = super().start(order)
        self.began(self, order)
        return started


class _Helpers:
    """Readers of logs are forked, once there is something to read."""

    def __getattr__(self, name: str) -> Any:
        return getattr(forked.ForkedReaders(), name)


@contextlib.contextmanager
def _as_it_was(folder: Path) -> Generator[None]:
    """The process is afterwards as it was before."""
    environ, cwd, switch_s = dict(os.environ), os.getcwd(), sys.getswitchinterval()
    handlers = {number: signal.getsignal(number) for number in _SIGNALS}
    os.chdir(folder)
    sys.setswitchinterval(_SWITCH_S)
    try:
        yield
    finally:
        sys.setswitchinterval(switch_s)
        os.chdir(cwd)
        os.environ.clear()
        os.environ.update(environ)
        for number, handler in handlers.items():
            asyncio.get_running_loop().remove_signal_handler(number)
            signal.signal(number, handler)


@contextlib.contextmanager
def _set(patches: Sequence[tuple[Any, str, object]]) -> Generator[None]:
    before = [(where, name, where.__dict__.get(name, _set)) for where, name, _ in patches]
    for where, name, what in patches:
        setattr(where, name, what)
    try:
        yield
    finally:
        for where, name, what in before:
            if what is _set:
                delattr(where, name)
            else:
                setattr(where, name, what)


@asynccontextmanager
async def desk_on(folder: Path, text: str = "", ends: Mapping[str, Ends | int] | None = None) -> AsyncGenerator[Desk]:
    """A deck of this task file, with no engine yet. *ends*: which tasks end by themselves, with what exit code."""
    with _as_it_was(folder):
        desk = Desk(folder, {name: Ends(end) if isinstance(end, int) else end for name, end in (ends or {}).items()})
        if text:
            desk.write(text)
        with _set(desk.patches()):
            try:
                yield desk
            finally:
                await desk.close()


def finished(folder: Path, text: str, ends: Mapping[str, Ends | int]) -> Path:
    """A deck whose headless run is over, for tests that only look."""

    async def whole() -> None:
        async with desk_on(folder, text, ends) as desk:
            await desk.run()

    asyncio.run(whole())
    return folder


def typed_in(folder: Path, *words: str, env: Mapping[str, str] | None = None) -> Ran:
    """What a command says in a folder where no engine runs."""

    async def whole() -> Ran:
        async with desk_on(folder) as desk:
            return await desk.command(*words, env=env)

    return asyncio.run(whole())


def at_desk(text: str = "", ends: Mapping[str, Ends | int] | None = None) -> Callable[[Any], Any]:
    """Make a test of a coroutine that takes a desk, and whatever else pytest gives."""
    return entered(lambda folder: desk_on(folder, text, ends))
