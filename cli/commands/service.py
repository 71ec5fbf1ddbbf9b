"""`gpudeck service`: the deck's engine as a systemd service of the user, started at boot or login."""

from __future__ import annotations

import contextlib
import difflib
import glob
import hashlib
import os
import re
import shlex
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from ...engine.adapters.host import read_text
from ...engine.adapters.programs import run_program
from ...engine.adapters.state.folder import load_environment, open_state_dir, save_environment
from ...engine.adapters.state.lock import held_by
from ...engine.atomic import write_atomic
from ...engine.attempts.environment import base_environment
from ...engine.client.detach import look_at_logout
from ...engine.command import Command
from ...engine.core.spec import DeckSettings
from ...engine.decks.options import encode
from ...engine.decks.states import find_own_state
from ...engine.errors import EngineUnavailableError, UsageError
from ...engine.taskfile.find import find_task_file
from ...engine.taskfile.load import load, load_settings
from ...engine.taskfile.options import RunOptions
from ...engine.taskfile.settings import stem_of
from .screen import says_yes

Action = Literal["install", "uninstall", "status", "show"]
ACTIONS: tuple[Action, ...] = ("install", "uninstall", "status", "show")

_UNABLE = 3
_NO_ANSWER = "the user's systemd does not answer"
_ASKED = ("ActiveState", "SubState", "MainPID", "UnitFileState", "Result", "ExecMainStatus")


def run(command: Command) -> int:
    """`gpudeck service ACTION [FILE]`, as it was typed. Raises DeckError."""
    action, *files = command.words or ("",)
    if action not in ACTIONS:
        raise UsageError(f"service takes {', '.join(ACTIONS)}, got {action or 'nothing'}")
    if len(files) + bool(command.file) > 1:
        raise UsageError(f"one task file at a time, got {', '.join(filter(None, [command.file, *files]))}")
    path = find_task_file(command.file or next(iter(files), None), os.environ, os.getcwd())
    return service(action, path, command.options(), force=command.flag("force"), as_root=command.flag("as_root"))


def service(action: Action, path: str, options: RunOptions, *, force: bool = False, as_root: bool = False) -> int:
    """Do *action* for the deck of *path*. Returns 0, or 3 where systemd does not do its part; raises DeckError.

    Which unit is the deck's follows from the file, --profile and --name alone, so that one can be removed whose file is
    broken or gone.
    """
    path = os.path.abspath(path)
    log_dir = options.log_dir and os.path.abspath(os.path.expanduser(options.log_dir))
    options = replace(options, log_dir=log_dir)
    systemd = UserSystemd(os.environ)
    match action:
        case "install":
            return _install(path, options, systemd, force=force, as_root=as_root)
        case "show":
            settings = load_settings(path, options)
            print(unit_text(Deck(path, settings.name, options, as_root), umask=_umask()), end="")
            return 0
        case "uninstall":
            return _uninstall(_installed(path, options), systemd)
        case "status":
            return _status(_installed(path, options), systemd)


# -- install ----------------------------------------------------------------------------------------------------------


def _install(path: str, options: RunOptions, systemd: UserSystemd, *, force: bool, as_root: bool) -> int:
    settings = load(path, options).settings
    deck = Deck(path, settings.name, options, as_root)
    text, unit = unit_text(deck, umask=_umask()), find_unit(units_folder(os.environ), deck)
    if unit.text not in ("", text):
        _agree_to_replace(unit, text, force=force)
    _keep_environment(deck, settings)
    write_unit(unit.path, text)
    print(f"{'unchanged' if unit.text == text else 'written'}: {unit.path}")
    if not systemd.answers():
        print(
            f"{_NO_ANSWER}; from a login of yours run: "
            f"systemctl --user daemon-reload && systemctl --user enable --now {unit.name}"
        )
        return _UNABLE
    _enable(unit, systemd, running=_other_engine(deck, settings, unit, systemd), changed=unit.text not in ("", text))
    _tell_of_logouts()
    return 0


def _agree_to_replace(unit: Unit, text: str, *, force: bool) -> None:
    """Show what would change, and ask. Raises UsageError unless it may be replaced."""
    old, new = unit.text.splitlines(keepends=True), text.splitlines(keepends=True)
    print("".join(difflib.unified_diff(old, new, unit.path, "what would be installed")), end="")
    if force:
        return
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError(f"{unit.path} has other contents: --force replaces it")
    if not says_yes(f"replace {unit.path}?"):
        raise UsageError("nothing was changed")


def _keep_environment(deck: Deck, settings: DeckSettings) -> None:
    """systemd's own environment knows no venv and no module path: tasks get this shell's."""
    state = open_state_dir(deck.file, settings.state_dir, deck.state, as_root=deck.as_root)
    if load_environment(state.path) is None:
        save_environment(state.path, base_environment(os.environ))
        print("kept: this shell's environment, for the tasks")


def _enable(unit: Unit, systemd: UserSystemd, *, running: int, changed: bool) -> None:
    """Also start it, unless an engine *running* (its pid; 0: none) has the deck."""
    for words in (("daemon-reload",), ("enable", *(() if running else ("--now",)), unit.name)):
        done, said = systemd.call(*words)
        if not done:
            raise EngineUnavailableError(f"systemctl --user {' '.join(words)}: {said}")
    if running:
        print(f"enabled: {unit.name}")
        print(f"engine {running} runs the deck; to hand it over: gpudeck stop && systemctl --user start {unit.name}")
        return
    print(f"enabled and started: {unit.name}; gpudeck service status tells how it does")
    if changed:
        print(f"an engine that ran already keeps what it was started with: systemctl --user restart {unit.name}")


# -- uninstall and status ---------------------------------------------------------------------------------------------


def _uninstall(unit: Unit, systemd: UserSystemd) -> int:
    answers = systemd.answers()
    if answers:
        done, said = systemd.call("disable", "--now", unit.name)
        if not done:
            raise EngineUnavailableError(f"systemd does not stop {unit.name}: {said}")
    try:
        os.unlink(unit.path)
    except OSError as error:
        raise EngineUnavailableError(f"{unit.path} cannot be removed: {error.strerror}") from error
    with contextlib.suppress(FileNotFoundError):
        os.unlink(os.path.join(os.path.dirname(unit.path), "default.target.wants", unit.name))
    if not answers:
        print(f"removed: {unit.path}; {_NO_ANSWER}: an engine that runs goes on until gpudeck stop")
        return _UNABLE
    systemd.call("daemon-reload")
    systemd.call("reset-failed", unit.name)
    print(f"removed: {unit.path}; its engine is stopped, tasks that run go on")
    return 0


def _status(unit: Unit, systemd: UserSystemd) -> int:
    """0 while its engine runs, or has ended well: with nothing left to run it does."""
    said = systemd.properties(unit.name, *_ASKED)
    active = said.get("ActiveState", "")
    engine = f", engine {said['MainPID']}" if said.get("MainPID", "0") != "0" else ""
    enabled = said.get("UnitFileState") or "not loaded"
    print(
        f"{unit.name}: {active} ({said.get('SubState')}), {enabled}{engine}" if active else f"{unit.name}: {_NO_ANSWER}"
    )
    print(f"unit: {unit.path}")
    if active == "failed":
        how = f"{said.get('Result')}, status {said.get('ExecMainStatus')}"
        print(f"it ended: {how}; journalctl --user -u {unit.name} tells more")
    _tell_of_logouts()
    return _UNABLE if active in ("", "failed") else 0


def _tell_of_logouts() -> None:
    logout = look_at_logout()
    if not logout.lingers:
        print(f"note: the service starts at your login and ends at your last logout; to keep it: {logout.remedy}")


# -- the deck and its unit --------------------------------------------------------------------------------------------


def _installed(path: str, options: RunOptions) -> Unit:
    deck = Deck(path, "", options)
    unit = find_unit(units_folder(os.environ), deck)
    if not deck.owns(unit.text):
        raise UsageError(f"no service is installed for {path}: `gpudeck service install {shlex.quote(path)}`")
    return unit


def _other_engine(deck: Deck, settings: DeckSettings, unit: Unit, systemd: UserSystemd) -> int:
    """The pid of an engine that runs the deck and is not the service's; 0: none."""
    state = find_own_state(deck.file, settings.state_dir, deck.options)
    holder = held_by(state.path) if state else None
    if holder is None or str(holder.pid) == systemd.properties(unit.name, "MainPID").get("MainPID"):
        return 0
    return holder.pid


def _umask() -> int:
    """The caller's, so that what tasks write can be read by the same people as from a shell."""
    found = os.umask(0o077)
    os.umask(found)
    return found


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
    name: str
    options: RunOptions = field(default_factory=RunOptions)
    as_root: bool = False
    """root was told to work in a folder that is not root's."""

    @property
    def state(self) -> str:
        """Name of its state: the file's stem, with profile and --name."""
        return stem_of(self.file, self.options)

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
        folder=_plain(os.path.dirname(deck.file)).replace("%", "%%"),
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
        if deck.owns(text := read_text(path)):
            return Unit(path, text)
    first, second = (os.path.join(folder, name) for name in deck.names)
    strange = _OURS.search(read_text(first)) is not None
    path = second if strange else first
    return Unit(path, read_text(path))


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


# -- the user's instance of systemd, through its own command ----------------------------------------------------------


_PATIENCE_S = 120.0
"""A stop may take as long as the service is given for it: 90 s unless somebody said otherwise."""
_ANSWER_S = 10.0


class UserSystemd:
    """`systemctl --user`. Where no session has set XDG_RUNTIME_DIR (sudo, cron), its usual place is tried."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._env = dict(environ)
        self._env.setdefault("XDG_RUNTIME_DIR", f"/run/user/{os.getuid()}")
        self._env["LC_ALL"] = "C"

    def answers(self) -> bool:
        """Whether there is one, and it talks to us."""
        return self._run(("show", "--property=Version"), _ANSWER_S)[0]

    def call(self, *words: str) -> tuple[bool, str]:
        """Whether it did what it was told, and what it said (one line where it refused)."""
        return self._run(words, _PATIENCE_S)

    def properties(self, unit: str, *names: str) -> dict[str, str]:
        """What it knows about a unit; {} when it does not answer."""
        done, text = self._run(("show", unit, f"--property={','.join(names)}"), _ANSWER_S)
        pairs = (line.partition("=") for line in text.splitlines() if "=" in line)
        return {name: value for name, _, value in pairs} if done else {}

    def _run(self, words: tuple[str, ...], timeout_s: float) -> tuple[bool, str]:
        argv = ("systemctl", "--user", "--no-pager", "--no-ask-password", *words)
        answer = run_program(argv, self._env, timeout_s=timeout_s)
        text = answer.out + answer.err
        return answer.ok, text.strip() if answer.ok else " ".join(text.split())
