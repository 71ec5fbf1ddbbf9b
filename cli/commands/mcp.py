"""`gpudeck mcp`: the deck as tools for a coding agent, by the Model Context Protocol over standard input and output.

A tool is a command: the agent reads the words that a user reads, in at most `MOST_LINES`.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from ... import __version__
from ...engine.attempts.record import read_record
from ...engine.client.connection import Gone
from ...engine.client.files import queue_file
from ...engine.client.place import Place
from ...engine.command import Command
from ...engine.core.deck import Task
from ...engine.decks.offline import OfflineDeck, open_offline
from ...engine.errors import DeckError, UsageError
from ...engine.live.entry_like import inline
from ...engine.serve.offline import tasks_meant
from ...engine.taskfile.placeholders import as_written
from ...engine.text import names_text

if TYPE_CHECKING:
    from mcp.server.mcpserver import MCPServer

AGENT = "agent"
"""Who asked, in the journal and on rows; the tag of tasks that it added to a task file."""
MOST_LINES = 40
"""Of an answer: an agent pays for each."""
LONGEST_S = 600.0
_TRACE_LINES = 20
_COMMAND_S = 120.0
_WHICH = "say which tasks; '*' means all"
_HOW = """gpudeck runs commands on the GPUs of this box, in one queue for all: never start a training yourself.
Selectors name tasks: 'train-*', 'state:failed', 'lr=0.1'; several words narrow.
First submit with dry_run, then without; then wait; triage what failed before you retry it."""


def run(command: Command) -> int:
    """Serve until the agent closes standard input."""
    if find_spec("mcp") is None:
        raise UsageError("gpudeck mcp needs the extra mcp: pip install 'gpudeck[mcp]'")
    server_of(_place(command)).run("stdio")
    return 0


def _place(command: Command) -> Place:
    """The deck of the folder, else the queue, also where nothing was ever put into it."""
    try:
        place = Place.of(command)
    except UsageError:
        if command.file is not None:
            raise
        return Place(queue_file(), command.options(), os.environ)
    if place.path != queue_file():
        place.refuse_missing(command.file)
    return place


def server_of(place: Place) -> MCPServer[Any]:
    """The tools for one deck."""
    from mcp.server.mcpserver import MCPServer

    class Server(MCPServer[Any]):
        async def call_tool(self, name: str, arguments: dict[str, Any], context: Any = None) -> Any:
            """What a tool does not know is refused: by itself the SDK leaves it out, and a retry with `set` would be
            one without other values."""
            takes = {tool.name: tool.input_schema["properties"] for tool in await self.list_tools()}
            if strange := [word for word in arguments if word not in takes.get(name, arguments)]:
                known = f"it takes {', '.join(takes[name])}" if takes[name] else "it takes none"
                raise _failed(f"{name} knows no argument {names_text(strange)}: {known}")
            return await super().call_tool(name, arguments, context)

    tools = Tools(place)
    server = Server("gpudeck", instructions=_HOW, version=__version__, log_level="ERROR")
    for tool in (
        tools.state, tools.tasks, tools.submit, tools.wait, tools.triage, tools.logs, tools.metrics, tools.compare,
        tools.retry, tools.cancel,
    ):  # fmt: skip
        server.tool(structured_output=False)(tool)
    return server


class Tools:
    """What an agent may do. Each answers in text; what fails raises ToolError, which the agent gets as a failure."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._queue = place.path == queue_file()

    def state(self) -> str:
        """How the deck stands: counts, what runs, what failed and why, what the rest waits for, the GPUs."""
        return self._say("status")

    def tasks(self, select: str = "") -> str:
        """A line for each task that the selector means: state, GPU, attempt, time, reason."""
        return self._say("ls", *select.split())

    def submit(
        self,
        command: str,
        name: str = "",
        gpus: int = 1,
        timeout: str = "",
        env: dict[str, str] | None = None,
        needs: list[str] | None = None,
        params: dict[str, str] | None = None,
        next: bool = False,  # noqa: A002 as the option is called
        now: bool = False,
        dry_run: bool = True,
    ) -> str:
        """Add a shell command as a task. dry_run (the default) only tells what would be added. next: before all that
        waits. now: in the place of a running task that goes on from its checkpoint later; only where the user asks for
        it. timeout: '2h'. needs: tasks that must succeed first. params: what it is tried with, {"lr": "0.1", "seed":
        "3"}; {lr} in the command is its value, and compare knows the task by it. It starts the deck, if that is not
        running: what waits in it runs, too."""
        words = ["-n", str(gpus), *(["--name", name] if name else []), *(["--timeout", timeout] if timeout else [])]
        words += [word for pair in (env or {}).items() for word in ("--env", "=".join(pair))]
        words += [word for need in needs or () for word in ("--needs", need)]
        words += ["--next"] * next + ["--now"] * now + ["--dry-run"] * dry_run
        if not self._queue:
            words += [word for key, value in (params or {}).items()
                      for word in ("--set", f"matrix.{key}={inline([as_written(value)])}")]  # fmt: skip
            words += ["--set", f'tags=["{AGENT}"]', *["--start"] * (not dry_run)]
        return self._say("add", *words, "--", command)

    def wait(self, select: str = "", seconds: float = 300.0) -> str:
        """Wait until the state of any of these tasks changes, or nothing more becomes of them; at most 600 seconds."""
        deadline = time.monotonic() + min(max(seconds, 0.0), LONGEST_S)
        try:
            return self._changes(select.split(), deadline)
        except DeckError as error:
            raise _failed(str(error)) from None

    def _changes(self, select: Sequence[str], deadline: float) -> str:
        connection = self._place.attach()
        if connection is None:
            return "no engine runs this deck: nothing changes\n" + self._say("ls", *select)
        with connection:
            chosen: set[str] = set(connection.request("select", select=list(select)))
            before: Mapping[str, str] | None = None
            while True:
                picture = connection.wait_for_picture()
                now = {row.name: row.state for row in picture.rows.values() if not select or row.name in chosen}
                if before is not None and now != before:
                    told = [f"{name}: {before.get(name, 'new')} -> {state}" for name, state in now.items()
                            if before.get(name) != state]  # fmt: skip
                    return _cut("\n".join(told))
                before = now
                if picture.head.ended:
                    return f"nothing more runs: {_counts(now)}"
                if (left_s := deadline - time.monotonic()) <= 0:
                    return f"nothing has changed: {_counts(now)}"
                try:
                    next(connection.messages(left_s), None)
                except Gone:
                    return f"the engine has ended: {_counts(now)}"

    def triage(self, task: str) -> str:
        """Why a task failed: reason and hint, its last lines, what was otherwise when it, or one like it, last
        succeeded."""
        try:
            offline = open_offline(self._place.path, self._place.options, self._place.environ)
            (found,) = tasks_meant(offline, [task])
        except ValueError:
            raise _failed(f"{task} means several tasks, or none: name one") from None
        except DeckError as error:
            raise _failed(str(error)) from None
        told = [self._say("explain", task), *_otherwise(offline, found)]
        told.append(self._ran("logs", task, "-n", str(_TRACE_LINES))[1])
        return "\n".join(text for text in told if text)

    def logs(self, task: str, lines: int = 20) -> str:
        """The end of the newest log of a task."""
        return self._say("logs", task, "-n", str(min(max(lines, 1), MOST_LINES)))

    def metrics(self, select: str = "", over: str = "", metric: str = "") -> str:
        """Params and metrics as a table. over: a param such as seed to average over. metric: 'acc', 'loss:min'."""
        return self._say("table", *select.split(), *_option("--over", over), *_option("--metric", metric))

    def compare(self, first: str, second: str, over: str = "", metric: str = "") -> str:
        """Two settings side by side ('method=adam', 'method=sgd'): the difference, its 95 % interval, how many more
        seeds would tell."""
        return self._say("compare", first, second, *_option("--over", over), *_option("--metric", metric))

    def retry(self, select: str, values: dict[str, str] | None = None) -> str:
        """Run tasks once more that failed or were cancelled. values: variables to give other values than the file's."""
        given = [word for pair in (values or {}).items() for word in ("--set", "=".join(pair))]
        if not select.strip():
            raise _failed(_WHICH)
        return self._say("retry", *select.split(), *given, "-y")

    def cancel(self, select: str) -> str:
        """Stop what runs of these tasks, and start none of the others."""
        if not select.strip():
            raise _failed(_WHICH)
        return self._say("cancel", *select.split(), "-y")

    def _say(self, verb: str, *words: str) -> str:
        """What a command prints, on both streams. Raises ToolError with it where the command fails."""
        code, text = self._ran(verb, *words)
        if code:
            raise _failed(f"exit code {code}:\n{text}")
        return text

    def _ran(self, verb: str, *words: str) -> tuple[int, str]:
        """Its exit code, and what it prints. Raises ToolError where it does not end."""
        options, typed = self._options(), [*words]
        at = typed.index("--") if "--" in typed else len(typed)
        argv = [sys.executable, "-P", "-m", "gpudeck", verb, *typed[:at], *options, *typed[at:]]
        try:
            done = subprocess.run(
                argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", timeout=_COMMAND_S,
                check=False, env={**os.environ, "GPUDECK_BY": AGENT, "GPUDECK_FILE": self._place.path},
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            raise _failed(f"gpudeck {verb} has not ended after {_COMMAND_S:g} s: look at state") from None
        text = "\n".join(part.rstrip() for part in (done.stdout, done.stderr) if part.strip())
        return done.returncode, _cut(text)

    def _options(self) -> list[str]:
        options = self._place.options
        named = [*_option("--profile", options.profile or ""), *_option("--name", options.name or "")]
        return ["--queue", *named] if self._queue else named


def _failed(text: str) -> Exception:
    """The SDK's failure of a tool: an agent sees it as one."""
    from mcp.server.mcpserver.exceptions import ToolError

    return ToolError(text)


_TELLING = ("command", "cwd", "git", "host", "gpus", "rung", "set")
"""Of attempt-N.json."""


def _otherwise(offline: OfflineDeck, task: Task) -> list[str]:
    """In what its newest attempt differs from the last success: its own, else the last one of its entry."""
    own = [end.number for end in task.ended if end.outcome.ok]
    if own:
        now, then = (read_record(offline.paths(task.name, at).json) for at in (task.ended[-1].number, own[-1]))
        differ = [f"  {key}: {then.get(key)} -> {now.get(key)}" for key in _TELLING if now.get(key) != then.get(key)]
        return [f"otherwise than in attempt {own[-1]}, which succeeded:", *(differ or ["  nothing that is kept"])]
    like = [each for each in offline.deck.tasks if each.spec.entry == task.spec.entry and each.done_wall]
    if not like:
        return ["nothing of its entry has succeeded yet"]
    last = max(like, key=lambda each: each.done_wall)
    there: Mapping[str, str] = last.spec.params
    params = [f"{name}={value}" for name, value in task.spec.params.items() if there.get(name) != value]
    return [f"otherwise than in {last.name}, which succeeded: {', '.join(params) or 'nothing'}"]


def _counts(states: Mapping[str, str]) -> str:
    return ", ".join(f"{count} {state}" for state, count in Counter(states.values()).items())


def _option(name: str, value: str) -> list[str]:
    return [name, value] if value else []


def _cut(text: str) -> str:
    lines = text.splitlines()
    more = len(lines) - MOST_LINES
    return "\n".join([*lines[:MOST_LINES], f"… {more} more lines: narrow the selector"] if more > 0 else lines)
