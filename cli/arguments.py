"""The command line: words become a command."""

from __future__ import annotations

import argparse
import math
import os
import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from ..engine.command import Command
from .options import one_task, some_tasks
from .verbs import DAILY, DECK, HABITS, VERBS, Verb

_NEGATIVE = re.compile(r"-\d+")
_LEFT_OUT = re.compile(r"-\w{2,}[:=].+")
"""Of a selector: what it leaves out, "-state:failed", "-lr=0.1". No option of ours looks like it."""
_NAME_LEFT_OUT = re.compile(r"-\d+|-[^-].+")
"""Where it is no option: a number, or a name or a glob that a selector leaves out."""
_KEPT = "\0"
"""Before such a word: argparse takes it for no option then. No word of a command line has it."""


def parse(arguments: Sequence[str]) -> Command:
    """Turn words into a command. Wrong usage prints one line and exits with 2."""
    file, words = leading_file(list(arguments))
    if words[:1] == ["help"]:
        words = _help_for(words[1:2])
    if words and words[0] in HABITS and not os.path.exists(words[0]):
        parser_of(DECK).error(f"no command {words[0]!r}: {_habit(*words)}")
    verb = VERBS[words.pop(0)] if words and words[0] in VERBS and words[0] != DECK else VERBS[DECK]
    parser = parser_of(verb.name)
    select = verb.words == "select"
    found, rest = parser.parse_known_args(
        [_KEPT + word if select and _LEFT_OUT.fullmatch(word) else word for word in words]
    )
    if select:
        found.words, rest = ([word.removeprefix(_KEPT) for word in each] for each in (found.words, rest))
    if verb.words in ("none", "select") and not file and not vars(found).get("file"):
        file = _taken_file(found.words if "words" in found else rest)
        if select and file and not found.words and {some_tasks, one_task} & {*verb.adds}:
            parser.error("the following arguments are required: SEL")
    # What argparse leaves over are options that nobody knows, and words that stand behind an option.
    own = _NAME_LEFT_OUT if select else _NEGATIVE
    unknown = [word for word in rest if word.startswith("-") and not own.fullmatch(word)]
    if verb.name == DECK and unknown:
        _refuse_late_command([*found.words, *rest], parser)
    if unknown or ("words" not in found and rest):
        parser.error(f"unrecognized arguments: {' '.join(unknown or rest)}{_nearest_option(unknown, parser)}")
    if rest:
        found.words += rest
    if file and vars(found).get("file"):
        parser.error(f"one task file at a time, got {file}, {found.file}")
    if file:
        found.file = file
    return _command(verb, found, parser)


def _habit(word: str, *more: str) -> str:
    """What to type in the place of another tool's word; of tasks that follow it by their names."""
    tasks = all(re.fullmatch(r"[^-].*", each) for each in more)
    return re.sub(r"\b(SEL|TASK)\b", lambda _: shlex.join(more), HABITS[word]) if more and tasks else HABITS[word]


def _nearest_option(unknown: Sequence[str], parser: argparse.ArgumentParser) -> str:
    """What the first of them may have been meant to be: "" where nothing is near."""
    from difflib import get_close_matches

    option, _, value = unknown[0].partition("=") if unknown else ("", "", "")
    shown = [
        word
        for action in parser._actions  # pyright: ignore[reportPrivateUsage]
        for word in action.option_strings
        if action.help != argparse.SUPPRESS
    ]
    meant = _MEANT.get(option, "")
    if meant and (not meant.startswith("-") or meant.split()[0] in shown):
        return f": {meant}"
    known = [word for word in shown if word.startswith("--")]
    if near := get_close_matches(option, known, n=1, cutoff=0.75):
        return f": did you mean {near[0]}?"
    named = option.startswith("--") and "--set" in known and option[2:].replace("-", "_").isidentifier()
    return f": a value of the task is --set {option[2:]}={value or '…'}" if named else ""


def _help_for(command: Sequence[str]) -> list[str]:
    """`gpudeck help` and `gpudeck help COMMAND` in other words."""
    for word in command:
        if word not in VERBS:
            _refuse_misspelt(word, parser_of(DECK))
            parser_of(DECK).error(f"no command {word!r}")
    return [*command, "--help"]


_MEANT = {
    "--runs": "it is --queue now, one of yours for all folders of this host",
    "--pty": "-i gives the command your terminal",
    "--tty": "-i gives the command your terminal",
    "--gres": "-n N asks for N GPUs",
    "--after": "--needs NAME waits for a task",
    "--dependency": "--needs NAME waits for a task",
    "--label": "--name gives it a name",
    "--job-name": "--name gives it a name",
    "--time": "--timeout 2h ends it then",
    "--mem": "--set memory=8GiB reserves memory of the host",
    "--failed": "`state:failed` selects what has failed",
    "--all": "'*' selects all tasks",
}
"""Options of other tools, and of before."""


_USAGE = "gpudeck [-f FILE] [COMMAND] …\n       gpudeck [FILE] [K=V …] [--headless] [options]"


def parser_of(name: str) -> argparse.ArgumentParser:
    """The parser of a command's own words and options."""
    verb = VERBS[name]
    text = _wrapped(f"{verb.text[0].upper()}{verb.text[1:]}.")
    parser = _Parser(
        prog="gpudeck" if name == DECK else f"gpudeck {name}",
        usage=_USAGE if name == DECK else None,
        description=f"{text}\n\n{_commands()}" if name == DECK else text,
        epilog=f"example: {verb.example.replace('%', '%%')}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    for add in verb.adds:
        add(parser)
    if name != "schema":
        parser.add_argument(
            *(["-f"] if verb.short_file else []),
            "--file",
            help="the task file (default: GPUDECK_FILE, ./tasks.toml, a parent's); also before the command",
        )
    return parser


class _Parser(argparse.ArgumentParser):
    """One line for a mistake instead of the whole usage; help that cannot be written fails."""

    def print_help(self, file: Any = None) -> None:
        print(self.format_help(), end="", file=file, flush=True)

    def error(self, message: str) -> None:  # type: ignore[override]
        message = re.sub(r"ignored explicit argument (.*)", r"takes no value, got \1", message)
        if message.endswith("required: SEL"):
            message += " (a name, a glob, state:failed, …)"
        file = "; -f names the task file" if message.startswith("unrecognized") and message.endswith(".toml") else ""
        stop = "" if message.endswith("?") else ";"
        self.exit(2, f"gpudeck: {message}{file}{stop} see `{self.prog} --help`\n")


def _wrapped(text: str) -> str:
    """As wide as argparse makes what it lays out itself."""
    import shutil
    import textwrap

    return textwrap.fill(text, max(20, shutil.get_terminal_size().columns - 2))


def _commands() -> str:
    """Those of every day with what they do, the others by name."""
    import shutil
    import textwrap

    indent = max(len(name) for names in DAILY.values() for name in names) + 4
    columns = max(shutil.get_terminal_size().columns, indent + 20)
    lines: list[str] = []
    for group, names in DAILY.items():
        lines.append(f"{group}:")
        for name in names:
            head, behind = f"  {name}".ljust(indent), " " * indent
            lines.append(textwrap.fill(VERBS[name].text, columns, initial_indent=head, subsequent_indent=behind))
    daily = {name for names in DAILY.values() for name in names}
    more = ", ".join(verb.name for verb in VERBS.values() if not verb.hidden and verb.name not in daily)
    lines += ["more:", textwrap.fill(more, columns, initial_indent="  ", subsequent_indent="  ")]
    shown = "\n".join(lines)
    return f"{shown}\n\n`gpudeck COMMAND --help` tells what a command does."


def leading_file(words: list[str]) -> tuple[str | None, list[str]]:
    """A file that is named before the command. In front of options alone it is left where it stands."""
    if len(words) > 2 and words[0] in ("-f", "--file"):
        return words[1], words[2:]
    if len(words) > 1 and words[0].startswith("--file="):
        return words[0].removeprefix("--file="), words[1:]
    if len(words) > 1 and words[0].startswith("-f") and len(words[0]) > 2:
        return words[0][2:], words[1:]
    return None, words


def _taken_file(words: list[str]) -> str | None:
    """The task file where a deck's is named first, as for commands that take nothing else; taken from *words*."""
    names_file = bool(words) and words[0].endswith(".toml") and os.path.isfile(words[0])
    return words.pop(0) if names_file else None


def _command(verb: Verb, found: argparse.Namespace, parser: argparse.ArgumentParser) -> Command:
    given = vars(found)
    words: list[str] = given.get("words") or []
    file: str | None = given.get("file")
    pairs: list[str] = list(given.get("set") or [])
    if verb.words == "file":
        file = _file_of(verb, file, [word for word in words if "=" not in word], parser)
        pairs += [word for word in words if "=" in word]
    _refuse_odd(given, parser)
    return Command(
        verb=verb.name,
        file=file,
        values=_values(pairs, given.get("data_root"), parser),
        words=() if verb.words == "file" else tuple(words),
        given={name: value for name, value in given.items() if name not in ("words", "set", "file")},
    )


def _refuse_odd(given: Mapping[str, Any], parser: argparse.ArgumentParser) -> None:
    """What could only be passed over."""
    interval = given.get("check_interval", 0.0)
    if not 0 <= interval < math.inf:
        parser.error(f"--check-interval must be at least 0, got {interval:g}")
    if given.get("with_needs") and not given.get("only"):
        parser.error("--with-needs goes with --only")
    for name, least in (("lines", 0), ("rank", 0), ("attempt", 1), ("keep_last", 0)):
        if (number := given.get(name)) is not None and number < least:
            parser.error(f"--{name.replace('_', '-')} must be at least {least}, got {number}")
    if given.get("junit") == "":
        parser.error("--junit wants the name of a file")


def _file_of(verb: Verb, file: str | None, files: Sequence[str], parser: argparse.ArgumentParser) -> str | None:
    if len(files) + bool(file) > 1:
        if verb.name == DECK and len(files) > 1 and files[1] in VERBS:
            parser.error(f"a command goes first: gpudeck {files[1]} -f {files[0]}")
        if verb.name == DECK:
            _refuse_late_command(files[:1], parser)
        if verb.name == DECK and len(files) > 1 and not os.path.exists(files[0]):
            _refuse_misspelt(files[0], parser)
            names = ", ".join(name for name, known in VERBS.items() if not known.hidden)
            parser.error(f"no command {files[0]!r}: there are {names}; gpudeck --headless FILE runs a deck")
        parser.error(f"one task file at a time, got {', '.join(filter(None, [file, *files]))}")
    if verb.name == DECK and files and not file:
        _refuse_misspelt(files[0], parser)
    return file or (files[0] if files else None)


def _refuse_late_command(words: Sequence[str], parser: argparse.ArgumentParser) -> None:
    """A command behind options: they, and what follows, were read as the deck's own."""
    late = next((word for word in words if word in VERBS and word != DECK and not os.path.exists(word)), None)
    if late is not None:
        parser.error(f"a command goes before its options: gpudeck {late} …")


def _refuse_misspelt(word: str, parser: argparse.ArgumentParser) -> None:
    """A word that is nearly a command, and no file; or one behind options."""
    _refuse_late_command([word], parser)
    if "." in word or "/" in word or os.path.exists(word):
        return
    from difflib import get_close_matches

    if near := get_close_matches(word, [name for name, verb in VERBS.items() if not verb.hidden], n=1):
        parser.error(f"no command and no file {word!r}: did you mean {near[0]}?")


def _values(pairs: Sequence[str], data_root: str | None, parser: argparse.ArgumentParser) -> dict[str, str]:
    values: dict[str, str] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            parser.error(f"--set wants K=V, got {pair!r}")
        values[name] = value
    return values if data_root is None else {**values, "data_root": data_root}
