"""The systemd user unit of a deck: its name, its text, and whose unit a text is."""

from __future__ import annotations

import glob
import hashlib
import os
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field

from ..atomic import write_atomic
from ..errors import EngineUnavailableError, UsageError
from ..opening.run_options import encode
from ..taskfile.options import RunOptions

_LONGEST_NAME = 100
_ODD = re.compile(r"[^A-Za-z0-9:_.-]")
_OURS = re.compile(r"^\[X-gpudeck\]\nFile=(.*)\nState=(.*)$", re.MULTILINE)

_TEXT = """\
[Unit]
Description=gpudeck: {description}

[Service]
Type=exec
WorkingDirectory={folder}
ExecStart={command}
UMask={umask:04o}
# Tasks belong to the deck, not to the engine: it alone is stopped, and a new one finds them again.
KillMode=process
SendSIGKILL=no
OOMPolicy=continue
OOMScoreAdjust=0
TasksMax=infinity
Restart=on-failure
RestartSec=10
# 2: the task file is wrong; 3: the deck cannot run here. Another try would end alike.
RestartPreventExitStatus=2 3
SuccessExitStatus=143

[Install]
WantedBy=default.target

[X-gpudeck]
File={file}
State={state}
"""
"""OOMScoreAdjust: as low as the user's manager may go; where that is higher, systemd leaves its own. SuccessExitStatus:
an engine that was told to stop says so with 143. Sections that begin with X- are not systemd's."""


@dataclass(frozen=True, slots=True)
class Deck:
    """What a unit runs."""

    file: str
    """Absolute path of the task file."""
    state: str
    """Name of its state: the file's stem, with profile and --name."""
    name: str
    folder: str
    """Where the engine works: absolute."""
    options: RunOptions = field(default_factory=RunOptions)
    as_root: bool = False
    """root was told to work in a folder that is not root's."""

    @property
    def names(self) -> tuple[str, str]:
        """Names for its unit: the one to be preferred, and the one to use where that is another deck's."""
        said = _ODD.sub("_", ".".join(filter(None, (self.name, self.options.profile, self.options.name))))
        said = f"gpudeck-{said[:_LONGEST_NAME]}"
        mark = hashlib.sha256(f"{self.file}\0{self.state}".encode(errors="surrogateescape")).hexdigest()[:8]
        return f"{said}.service", f"{said}-{mark}.service"

    def owns(self, text: str) -> bool:
        """Whether *text* is a unit for this very deck, whatever its options."""
        found = _OURS.search(text)
        return found is not None and found.groups() == (_plain(self.file), _plain(self.state))


def unit_text(deck: Deck, *, umask: int, interpreter: str = sys.executable) -> str:
    """The whole unit. Raises UsageError for a path that systemd could not read back."""
    said = encode(deck.options)
    engine = ["-P", "-m", "gpudeck", "engine", deck.file, "--service"]
    engine += [*(["--as-root"] if deck.as_root else []), *(["--options", said] if said else [])]
    return _TEXT.format(
        description=_plain(f"{deck.name} ({deck.file})").replace("%", "%%"),
        folder=_plain(deck.folder).replace("%", "%%"),
        command=" ".join([_quoted(interpreter), *(_quoted(word).replace("$", "$$") for word in engine)]),
        umask=umask,
        file=_plain(deck.file),
        state=_plain(deck.state),
    )


@dataclass(frozen=True, slots=True)
class Unit:
    """A unit file, or the place for one."""

    path: str
    text: str = ""
    """What is there; "" for nothing."""

    @property
    def name(self) -> str:
        return os.path.basename(self.path)


def units_folder(environ: Mapping[str, str]) -> str:
    """Where a user's own units lie."""
    home = environ.get("XDG_CONFIG_HOME", "")
    return os.path.join(home if os.path.isabs(home) else os.path.expanduser("~/.config"), "systemd", "user")


def find_unit(folder: str, deck: Deck) -> Unit:
    """The unit of *deck*, under whatever name; else the place for it: two decks may have the same name."""
    for path in sorted(glob.glob(os.path.join(glob.escape(folder), "gpudeck-*.service"))):
        if deck.owns(text := _read(path)):
            return Unit(path, text)
    first, second = (os.path.join(folder, name) for name in deck.names)
    strange = _OURS.search(_read(first)) is not None
    path = second if strange else first
    return Unit(path, _read(path))


def write_unit(path: str, text: str) -> None:
    """Replace a unit file. Raises EngineUnavailableError."""
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        write_atomic(path, text.encode())
    except OSError as error:
        raise EngineUnavailableError(f"{path} cannot be written: {error.strerror}") from error


def _quoted(word: str) -> str:
    r"""A word of a command as systemd reads it: %% for %, and \ and " escaped."""
    text = _plain(word).replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    return text if re.fullmatch(r"[A-Za-z0-9_./=,:@%+-]+", text) else f'"{text}"'


def _plain(text: str) -> str:
    if not text.isprintable() or text != text.strip() or text.endswith("\\"):
        raise UsageError(f"{text!r} cannot be written into a systemd unit: give the folder another name")
    return text


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""
