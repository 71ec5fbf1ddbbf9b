"""What `gpudeck init` writes: a file to begin with, or a [[task]] for each of a list of shell commands."""

from __future__ import annotations

import os
import re
import shlex
import textwrap
from collections import Counter
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass

import tomli_w

from ..text import plural
from .check import check_name
from .placeholders import BUILT_IN, escaped
from .problems import BadValueError

SHORT = 3
"""Fewer commands are written one by one: two are more often two things than a sweep."""
NAME_CHARS = 60
_LINE_CHARS = 100

_VISIBLE = re.compile(r"CUDA_VISIBLE_DEVICES=\S*\s+")
_BACKGROUND = re.compile(r"(?<!&)&\s*$")
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9._=,+@-]+")
_WHOLE = re.compile(r"0|-?[1-9]\d{0,17}")
_RUNNERS = frozenset({"python", "python3", "bash", "sh", "torchrun", "accelerate", "uv", "srun", "time", "nohup", "env",
                      "exec", "launch", "run", "nice", "stdbuf"})  # fmt: skip
_SCRIPT_ENDS = (".py", ".sh", ".bash", ".R", ".jl")


@dataclass(frozen=True, slots=True)
class Read:
    """The commands of a list, and what was done to them."""

    commands: tuple[str, ...]
    notes: tuple[str, ...] = ()
    """Lines for the user."""


def read_commands(text: str) -> Read:
    """The commands of *text*: blank lines, comments and a lone `wait` are passed over, a backslash at a line's end
    joins it with the next one. What would work against the deck is left out, with a note: `&` at the end, and
    CUDA_VISIBLE_DEVICES before a command."""
    commands: list[str] = []
    visible = background = 0
    for line in _joined(text):
        command, count = _BACKGROUND.subn("", line)
        background += count
        command, count = _VISIBLE.subn("", command, count=1) if _VISIBLE.match(command) else (command, 0)
        visible += count
        commands.append(command.strip())
    notes: list[str] = []
    if visible:
        notes.append(f"CUDA_VISIBLE_DEVICES left out of {plural(visible, 'command')}: gpudeck gives each task its GPU")
    if background:
        lines = plural(background, "command")
        notes.append(f"& left out at the end of {lines}: gpudeck runs tasks at the same time anyway")
    if re.search(r"^#SBATCH", text, re.MULTILINE):
        notes.append("#SBATCH lines are comments here: options go to [slurm], the numbers of --array to a matrix")
    return Read(tuple(command for command in commands if command), tuple(notes))


def _joined(text: str) -> Iterable[str]:
    begun = ""
    for line in text.replace("\r\n", "\n").split("\n"):
        if not begun and (not line.strip() or line.lstrip().startswith("#") or line.strip() == "wait"):
            continue
        if line.endswith("\\") and not line.endswith("\\\\"):
            begun += line[:-1].strip() + " "
            continue
        yield (begun + line.strip()).strip()
        begun = ""
    if begun.strip():
        yield begun.strip()


# -- tables ------------------------------------------------------------------------------------------------------------


def tables(commands: Sequence[str], taken: Container[str] = (), *, gpus: int | None = None) -> str:
    """TOML of one [[task]] for each command, with names that are not *taken*. *gpus*: how many each takes."""
    names = names_for(commands, taken)
    return "\n".join(_table(name, escaped(command), gpus) for name, command in zip(names, commands, strict=True))


def matrix_table(commands: Sequence[str], *, gpus: int | None = None) -> str:
    """TOML of one [[task]] with a matrix for commands that differ in one word; "" where that is not simple.

    Whether it says the same as *commands* is for the caller to check, by reading it.
    """
    rows = [re.split(r"(\s+)", command) for command in commands]
    if len(rows) < SHORT or len({len(row) for row in rows}) > 1 or len(set(map(_program, commands))) > 1:
        return ""
    places = [at for at, column in enumerate(zip(*rows, strict=True)) if len(set(column)) > 1]
    if len(places) != 1:
        return ""
    at = places[0]
    words = [row[at] for row in rows]
    fixed = _common_option(words)
    values = [word[len(fixed) :] for word in words]
    before = rows[0][at - 2] if at >= 2 else ""
    key = _identifier(fixed.rstrip("=") if fixed else before)
    command = escaped("".join(rows[0][:at]) + fixed) + f"{{{key}}}" + escaped("".join(rows[0][at + 1 :]))
    table = _table(f"{_program(commands[0])}-{{{key}}}", command, gpus)
    return f"{table}matrix.{key} = [{_inline(_typed(values))}]\n"


def _inline(values: Sequence[int | str]) -> str:
    """Values side by side; where they do not fit on one line, in several."""
    items = [tomli_w.dumps({"v": value}).removeprefix("v = ").rstrip("\n") for value in values]
    text = ", ".join(items)
    if len(text) <= _LINE_CHARS:
        return text
    lines = textwrap.wrap(text, _LINE_CHARS, break_long_words=False, break_on_hyphens=False)
    return "\n" + "".join(f"  {line}\n" for line in lines)


def _common_option(words: Sequence[str]) -> str:
    """ "--lr=" of --lr=1 and --lr=2."""
    option, equals, _ = words[0].partition("=")
    fixed = option + equals
    return fixed if equals and all(word.startswith(fixed) for word in words) else ""


def _identifier(option: str) -> str:
    word = re.sub(r"\W+", "_", option.strip("-+"), flags=re.ASCII).strip("_")
    if not re.fullmatch(r"[A-Za-z_]\w*", word, re.ASCII) or "." in option or "/" in option:
        return "value"
    return f"{word}_value" if word in BUILT_IN or word in ("include", "exclude") else word


def _typed(values: Sequence[str]) -> list[int] | list[str]:
    return [int(value) for value in values] if all(map(_WHOLE.fullmatch, values)) else list(values)


def _table(name: str, command: str, gpus: int | None) -> str:
    keys: dict[str, object] = {"name": name, "command": command}
    if gpus is not None:
        keys["gpus"] = gpus
    return f"[[task]]\n{tomli_w.dumps(keys)}"


# -- names -------------------------------------------------------------------------------------------------------------


def names_for(commands: Sequence[str], taken: Container[str] = ()) -> list[str]:
    """Names that tell the commands apart: the program, then the words that not all commands of that program have."""
    words = [_words(command) for command in commands]
    programs = [_program(command) for command in commands]
    groups: dict[str, list[int]] = {}
    for at, program in enumerate(programs):
        groups.setdefault(program, []).append(at)
    names = [""] * len(commands)
    used: set[str] = set()
    for program, members in groups.items():
        counts = Counter(word for at in members for word in set(words[at]))
        for at in members:
            telling = _telling(words[at], counts, len(members)) if len(members) > 1 else []
            names[at] = _free("-".join([program, *telling]), used, taken)
            used.add(names[at])
    return names


def _words(command: str) -> list[str]:
    try:
        return shlex.split(command)
    except ValueError:
        return command.split()


def _program(command: str) -> str:
    """`train` of `cd x && python -u train.py --lr 1`, `mod` of `python -m pkg.mod`."""
    words = [word for word in _words(command.rpartition("&&")[2] or command) if not re.fullmatch(r"\w+=.*", word, re.S)]
    for at, word in enumerate(words):
        if word.endswith(_SCRIPT_ENDS):
            return _clean(os.path.splitext(os.path.basename(word))[0])
        if word == "-m" and at + 1 < len(words) and "torch.distributed" not in words[at + 1]:
            return _clean(words[at + 1].rpartition(".")[2])
    plain = [_clean(os.path.basename(word)) for word in words if not word.startswith("-")]
    return next((word for word in plain if word and word not in _RUNNERS), plain[0] if plain else "")


def _telling(words: Sequence[str], counts: Counter[str], commands: int) -> list[str]:
    """The words that other commands lack; a value goes with the option before it."""
    found: list[str] = []
    for before, word in zip(["", *words], words, strict=False):
        if counts[word] == commands:
            continue
        value = os.path.basename(word.rstrip("/")) if "/" in word and "=" not in word else word
        option = before.lstrip("-") if before.startswith("-") and "=" not in before else ""
        piece = _clean(f"{option}={value}" if option and not word.startswith("-") else value.lstrip("-"))
        if option and found and found[-1] == _clean(option):
            found.pop()
        found += [piece] if piece else []
    return found


def _clean(text: str) -> str:
    return _NOT_IN_NAMES.sub("-", text).strip("-.,=")


def _free(name: str, used: Container[str], taken: Container[str]) -> str:
    """*name*, cut, with a number behind it where there is one already."""
    name = name[:NAME_CHARS].rstrip("-.,=")
    try:
        check_name(name)
    except BadValueError:
        name = f"task-{name}".rstrip("-")
    candidate, count = name, 1
    while candidate in used or candidate in taken:
        count += 1
        candidate = f"{name}-{count}"
    return candidate


_STARTER = """\
# The tasks of this folder. `gpudeck check` says what is wrong with the file, `gpudeck plan` what would run where,
# `gpudeck --headless {file}` runs it. `gpudeck schema` and docs/taskfile.md tell all keys.

[deck]
{name}
# gpus = "0-3"          # default: all GPUs of this box; "none": CPU only; "sim:4": four pretended ones, to try things
# slots_per_gpu = 2     # tasks on one GPU at the same time
# log_dir = "logs"

[vars]
seeds = [1, 2, 3]

# Keys for every task; a task's own go before them.
[defaults]
{gpus}
# timeout = "6h"
# retries = 1           # also see retry_on and backoff
# watch.log_size = "20GiB"    # say so when the logs of one attempt have grown beyond it

# One task for each seed. Replace the command by yours: command = "python train.py --seed {{seed}}"
[[task]]
name = "hello-s{{seed}}"
command = ["{{python}}", "-c", "import sys; print('hello from seed', sys.argv[1])", "{{seed}}"]
matrix.seed = "{{seeds}}"
# outputs = ["out/model-{{seed}}.pt"]     # what success leaves behind; what is there already is not made again

# One more, when all of these have succeeded.
[[task]]
name = "summary"
needs = ["hello-s*"]
gpus = 0
command = "echo all seeds are done"
"""


def starter(path: str, name: str | None, gpus: int | None) -> str:
    """A task file that runs as it is, and says what to change."""
    return _STARTER.format(
        file=os.path.basename(path),
        name=_pair("name", name) if name is not None else '# name = "my-deck"     # default: the folder, or the file',
        gpus=f"gpus = {gpus}" if gpus is not None else "# gpus = 1              # that one task takes; 0: a CPU task",
    )


def head(path: str, name: str | None) -> str:
    """The beginning of a file whose tasks follow."""
    check = f"gpudeck check -f {os.path.basename(path)}"
    return f"# `{check}` says what is wrong with this file; docs/taskfile.md tells all keys.\n" + (
        f"\n[deck]\n{_pair('name', name)}\n" if name is not None else ""
    )


def _pair(key: str, value: str) -> str:
    return tomli_w.dumps({key: value}).rstrip("\n")
