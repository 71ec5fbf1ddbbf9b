"""`gpudeck run -- COMMAND`: waits for GPUs, runs one command on them, and ends as it ends."""

from __future__ import annotations

import os

from ..client.place import say
from ..client.runs_home import home_of
from ..command import Command
from ..runs.asked import Asked
from ..runs.book import Book
from ..runs.engines import Engines
from ..runs.program import refuse_missing
from ..runs.wanted import wanted_of
from .run_follow import Follower


def run(command: Command) -> int:
    """Returns the command's exit code; with --detach 0 as soon as an engine has it. Raises DeckError."""
    wanted = wanted_of(command, os.environ)
    refuse_missing(wanted.command, wanted.environment)
    as_root = command.flag("as_root")
    home = home_of(command.file, os.environ, as_root=as_root)
    on_cpu = wanted.entry["gpus"] == 0
    engines = Engines(home, os.environ, simulated=wanted.simulated, as_root=as_root, on_cpu=on_cpu)
    with Asked() as asked:
        engines.tidy()
        name = Book(home).enter(wanted.entry, wanted.name, wanted.environment)
        try:
            connection = engines.take(name, say)
        except BaseException:  # Ctrl-C as well: nobody waits for the run any more, so no later engine may start it.
            Book(home).drop([name])
            raise
        if command.flag("detach"):
            connection.close()
            print(name)
            if not command.flag("quiet"):
                say(f"`gpudeck logs --runs {name} -f` follows it, `gpudeck cancel --runs {name}` stops it")
            return 0
        return Follower(home, name, engines, asked, _silent if command.flag("quiet") else say).follow(connection)


def _silent(_: str) -> None:
    """-q: only what the command writes."""
