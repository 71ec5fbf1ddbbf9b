"""`gpudeck report`: the deck as one HTML file, to be kept beside the results or sent to somebody."""

from __future__ import annotations

import os
import sys
import webbrowser

from ...engine.atomic import write_named
from ...engine.client.files import task_file
from ...engine.client.place import say
from ...engine.command import Command
from ...engine.decks.offline import open_offline
from ...engine.errors import EngineUnavailableError, UsageError
from ...engine.report_html.gather import gather
from ...engine.report_html.page import MARK, page
from .table import opened

DEFAULT = "report.html"
_EVERY_S = 10
"""A page that is served asks for a newer one."""


def run(command: Command) -> int:
    """Write the file and print its path; "-" is standard output. Raises DeckError."""
    if command.flag("serve"):
        return _serve(command)
    if command.given.get("port") is not None:
        raise UsageError("--port goes with --serve")
    given = command.given.get("output") or ""
    target = given or DEFAULT
    if not given:
        _refuse_other(target)
    content = page(gather(opened(command)))
    if target == "-":
        sys.stdout.buffer.write(content)
        return 0
    path = os.path.abspath(os.path.expanduser(target))
    _write(path, content)
    print(path)
    if command.flag("open") and not webbrowser.open(f"file://{path}"):
        say("no browser could be started here")
    return 0


def _serve(command: Command) -> int:
    """Until Ctrl-C."""
    from ...engine.report_html.live import serve
    from ...engine.web_address import LOOPBACK, listen, tell

    for name in ("output", "open"):
        if command.given.get(name):
            raise UsageError(f"--{name} does not go with --serve")
    path, options = task_file(command), command.options()

    def make() -> bytes:
        return page(gather(open_offline(path, options, os.environ)), every_s=_EVERY_S)

    make()  # what is wrong is said here, not in a browser
    sock, loopback = listen(LOOPBACK, int(command.given.get("port") or 0))
    serve(sock, make, lambda key: tell(sock, LOOPBACK, key, loopback=loopback))
    say("the page is closed")
    return 0


def _refuse_other(path: str) -> None:
    """A file of that name that is no report is somebody's work."""
    try:
        with open(path, "rb") as file:
            begin = file.read(200)
    except OSError:
        return
    if MARK.encode() not in begin:
        raise UsageError(f"{path} is there and is no report of gpudeck: -o FILE writes another file")


def _write(path: str, content: bytes) -> None:
    if os.path.isdir(path):
        raise UsageError(f"-o {path}: this is a folder, name a file in it")
    try:
        write_named(path, content)
    except FileNotFoundError:
        raise UsageError(f"-o {path}: its folder does not exist") from None
    except OSError as error:
        raise EngineUnavailableError(f"{path} cannot be written: {error.strerror}") from error
