"""The command line: which words there are, and what they become."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence

from ..engine.command import Command

_COMMANDS = {
    "check": "say everything that is wrong with a task file",
    "plan": "show what a start would run, where and when",
    "schema": "print the JSON Schema of the task file",
    "env": "show the environment that tasks start from, or take this shell's",
    "gpus": "show the GPUs of this box and who uses them",
}


def parse(arguments: Sequence[str]) -> Command:
    """Turn words into a command. Wrong usage prints one line and exits with 2."""
    words = list(arguments)
    verb = words[0] if words and words[0] in _COMMANDS else "run"
    parser = _parser(verb)
    found, rest = parser.parse_known_args(words[1:] if verb != "run" else words)
    # What argparse leaves over are options that nobody knows, and words that stand behind an option.
    unknown = rest if "words" not in found else [word for word in rest if word.startswith("-")]
    if unknown:
        parser.error(f"unrecognized arguments: {' '.join(unknown)}")
    if rest:
        found.words += rest
    return _command(verb, found, parser)


class _Parser(argparse.ArgumentParser):
    """One line for a mistake instead of the whole usage."""

    def error(self, message: str) -> None:  # type: ignore[override]
        self.exit(2, f"{self.prog}: {message}; see {self.prog} --help\n")


def _parser(verb: str) -> argparse.ArgumentParser:
    if verb == "run":
        verbs = "\n".join(f"  {name:10}{text}" for name, text in _COMMANDS.items())
        parser = _Parser(
            prog="gpudeck",
            description="Run the training tasks of a task file on the GPUs of this box.",
            epilog=f"commands (gpudeck COMMAND --help):\n{verbs}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        parser.add_argument("-V", "--version", action="store_true", help="print the version")
        parser.add_argument("--headless", action="store_true", help="run without a screen, a line per event")
    else:
        parser = _Parser(prog=f"gpudeck {verb}", description=_COMMANDS[verb].capitalize() + ".", allow_abbrev=False)
    if verb in ("run", "check", "plan", "env"):
        _add_file(parser)
    if verb == "run":
        _add_headless_options(parser)
    if verb in ("plan", "gpus"):
        parser.add_argument("--json", action="store_true", help="JSON instead of a table")
    if verb == "env":
        parser.add_argument("--profile")
        parser.add_argument("--name")
        parser.add_argument("--refresh", action="store_true", help="keep this shell's environment instead")
        parser.add_argument("--as-root", action="store_true", help="as root in a folder that is not root's")
    if verb in ("run", "check", "plan"):
        _add_run_options(parser)
    if verb == "gpus":
        parser.add_argument("--gpus", metavar="SIM", help="sim:N shows simulated GPUs")
    return parser


def _add_file(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("words", nargs="*", metavar="FILE [K=V …]", help="the task file, then values for [vars]")
    parser.add_argument("-f", "--file", help="the task file (default: GPUDECK_FILE, ./tasks.toml, a parent's)")


def _add_run_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--set", action="append", default=[], metavar="K=V", help="another value for one of [vars]")
    add("--data-root", metavar="PATH", help="the same as --set data_root=PATH")
    add("--only", action="append", default=[], metavar="SEL", help="only these tasks: names, globs, tag:x, key=value")
    add("--exclude", action="append", default=[], metavar="SEL", help="all but these")
    add("--with-needs", action="store_true", help="with --only: also what these tasks need")
    add("--limit", type=int, metavar="N", help="the first N tasks of each entry")
    add("--profile", help="use a [profile.NAME] of the file")
    add("--name", help="a second state beside the first")
    add("--gpus", metavar="LIST", help="all, none, 0-3,6, UUIDs or sim:N")
    add("--slots-per-gpu", metavar="N", help="tasks on one GPU at once, or auto")
    add("--log-dir", metavar="PATH")
    add("--skip-existing", action=argparse.BooleanOptionalAction, default=None, help="leave out what is done (default)")
    add("--halt", metavar="WHEN", help="when failures end the run: never, soon,fail=3, now,fail=1, soon,fail=30%%")
    add("--fail-fast", action="store_true", help="the same as --halt soon,fail=1")
    add("--backend", choices=("local", "slurm"))


def _add_headless_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--retry-cancelled", action="store_true", help="take up cancelled tasks too")
    add("--check-interval", type=float, default=10.0, metavar="SECONDS", help="between status lines (10; 0: none)")
    add("--json", action="store_true", help="JSON lines instead of text")
    add("--junit", metavar="FILE", help="write a JUnit report")
    add("--no-color", action="store_true")
    add("--as-root", action="store_true", help="run as root in a folder that is not root's")
    add("--takeover", action="store_true", help="the host or container that ran the deck is gone, with its tasks")
    add("-v", "--verbose", action="store_true", help="also commands and reasons for waiting")
    add("-q", "--quiet", action="store_true", help="only failures and the summary")


def _command(verb: str, found: argparse.Namespace, parser: argparse.ArgumentParser) -> Command:
    given = vars(found)
    words: list[str] = given.get("words") or []
    files = [word for word in words if "=" not in word]
    pairs = [*given.get("set", []), *(word for word in words if "=" in word)]
    if len(files) + bool(given.get("file")) > 1:
        first = files[0] if files else ""
        if verb == "run" and len(files) > 1 and not os.path.exists(first):
            parser.error(f"no command {first!r}: there are {', '.join(_COMMANDS)}; gpudeck --headless FILE runs a deck")
        parser.error(f"one task file at a time, got {', '.join(filter(None, [given.get('file'), *files]))}")
    values: dict[str, str] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            parser.error(f"--set wants K=V, got {pair!r}")
        values[name] = value
    if given.get("data_root") is not None:
        values["data_root"] = given["data_root"]
    if given.get("check_interval", 0.0) < 0:
        parser.error(f"--check-interval must be at least 0, got {given['check_interval']:g}")
    return Command(
        verb="version" if given.get("version") else verb,
        file=given.get("file") or (files[0] if files else None),
        values=values,
        given={name: value for name, value in given.items() if name not in ("words", "set", "file", "version")},
    )
