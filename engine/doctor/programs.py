"""Whether what the tasks' commands name is there: the folder, the program, the script."""

from __future__ import annotations

import os
import re
import shlex
import shutil
from collections.abc import Iterator, Mapping, Sequence

from ..attempts.environment import use_python
from ..core.spec import Command, TaskSpec
from ..taskfile.placeholders import without_markers
from .finding import Finding, fail, warn

_PYTHON = re.compile(r"python[\d.]*|\{python\}")
_SHELLS = frozenset({"bash", "dash", "ksh", "sh", "zsh"})
_WITH_VALUE = frozenset({"-W", "-X", "-o", "-O", "--rcfile", "--init-file"})
"""Options of Python and of shells whose value is the next word."""
_NO_SCRIPT = re.compile(r"-[A-Za-z]*[cm]|-|--module")
_NO_SHELL_SCRIPT = re.compile(r"-[A-Za-z]*[cs]|-|--")
"""Options behind which no script comes."""
_COMMENT = re.compile(r"(?m)(?:^|(?<=\s))#.*$")
_SIMPLE = re.compile(r"[\w./@+-]+")
_ELSEWHERE = frozenset({"apptainer", "docker", "echo", "podman", "printf", "singularity", "ssh"})
"""Of their words nothing runs here."""
_MOVES = frozenset({"cd", "git", "pushd", "tar", "unzip"})
"""Behind them nothing is known of relative paths."""
_FIRST_WORD = re.compile(
    r"""\s*(?:(?!PATH=)[A-Za-z_]\w*=(?:[^\s'"`\\;&|()<>]|'[^']*'|"[^"`\\]*")*\s+)*([\w./+-]+)(?=\s|$)"""
)
"""Behind variables that are set for it alone."""
_SHELLS_OWN = frozenset({
    "alias", "bg", "bind", "break", "builtin", "caller", "case", "cd", "command", "compgen", "complete", "continue",
    "coproc", "declare", "dirs", "disown", "do", "done", "echo", "elif", "else", "enable", "esac", "eval", "exec",
    "exit", "export", "false", "fc", "fg", "fi", "for", "function", "getopts", "hash", "help", "history", "if", "in",
    "jobs", "kill", "let", "local", "logout", "mapfile", "popd", "printf", "pushd", "pwd", "read", "readarray",
    "readonly", "return", "select", "set", "shift", "shopt", "source", "suspend", "test", "then", "time", "times",
    "trap", "true", "type", "typeset", "ulimit", "umask", "unalias", "unset", "until", "wait", "while", ".", ":"
})  # fmt: skip


def look_for_programs(tasks: Sequence[TaskSpec], base: Mapping[str, str], *, here: bool = True) -> list[Finding]:
    """What is nowhere, of each entry for its first task: a failure, or a warning where another task, which runs first,
    may make it. *base*: what attempts' environments start from. *here*: False where tasks run on other machines, which
    have programs of their own."""
    first: dict[str, TaskSpec] = {}
    for task in tasks:
        first.setdefault(task.entry, task)
    return [each for task in first.values() for each in _missing(task, base, here=here)]


def _missing(task: TaskSpec, base: Mapping[str, str], *, here: bool) -> Iterator[Finding]:
    say = warn if task.needs or task.after or task.round else fail
    command = task.work.command
    if not os.path.isdir(task.cwd):
        yield say("command", f"{task.name}: cwd {task.cwd} is not there", "make the folder, or change cwd")
        return
    if task.extras.image:  # which has programs and scripts of its own
        return
    if here and (trouble := _program_trouble(_program(command), task, base)):
        yield say("command", f"{task.name}: {trouble[0]}", trouble[1])
    for script in _scripts(task, base):
        remedy = "a relative path counts from cwd, which is the task file's folder unless it says cwd"
        yield say("command", f"{task.name}: {script} is not in {task.cwd}", remedy)


def _scripts(task: TaskSpec, base: Mapping[str, str]) -> Iterator[str]:
    """The scripts that Python, a shell or a launcher is to run, and that are nowhere. Nothing is known of one that a
    command before it names, and may make."""
    earlier: list[str] = []
    for words in _commands(task.work.command):
        if not _MOVES.isdisjoint(words):
            return
        script = _script(words)
        paths = [task.cwd]
        if script and "/" not in script and not script.endswith(".py"):  # a shell's, which looks on PATH, too
            paths += _search_path(task, base).split(os.pathsep)
        there = any(os.path.exists(os.path.join(path, script)) for path in paths)
        if script and not there and not any(script in word for word in earlier):
            yield script
        earlier += words


def _commands(command: Command) -> list[list[str]]:
    """The simple commands of a shell command, up to a here-document; none where its quotes are not closed."""
    if not isinstance(command, str):
        words = list(map(without_markers, command))
        in_shell = os.path.basename(words[0]) in _SHELLS and words[1:2] in (["-c"], ["-lc"], ["-ec"])
        return _commands("".join(words[2:3])) if in_shell else [words]
    text = without_markers(command).partition("<<")[0].replace("\\\n", " ")
    text = _COMMENT.sub("", text).replace("\n", ";")
    lexer = shlex.shlex(text, posix=True, punctuation_chars=True)
    lexer.whitespace_split, lexer.commenters = True, ""
    found: list[list[str]] = [[]]
    try:
        for word in lexer:
            if word.strip(";&|()"):
                found[-1].append(word)
            else:
                found.append([])
    except ValueError:
        return []
    return found


def _script(words: Sequence[str]) -> str:
    """What the first interpreter or launcher among the words of a simple command is to run; "": nothing known."""
    if words and os.path.basename(words[0]) in _ELSEWHERE:
        return ""
    for at, word in enumerate(words):
        name, rest = os.path.basename(word), words[at + 1 :]
        if name == "torchrun" or (name == "accelerate" and rest[:1] == ["launch"]):
            return _launched(rest)
        if _PYTHON.fullmatch(name) or name in _SHELLS:
            script = _after_options(rest, _NO_SHELL_SCRIPT if name in _SHELLS else _NO_SCRIPT)
            return script if script.endswith(".py") or name in _SHELLS else ""
    return ""


def _after_options(words: Sequence[str], no_script: re.Pattern[str]) -> str:
    """The first word that is neither an option nor the value of one."""
    rest = iter(words)
    for word in rest:
        if no_script.fullmatch(word):
            return ""
        if word in _WITH_VALUE:
            next(rest, None)
        elif not word.startswith(("-", "+")):
            return word if _SIMPLE.fullmatch(word) else ""
    return ""


def _launched(words: Sequence[str]) -> str:
    """The script of a launcher, which has many options with values."""
    for word in words:
        if _NO_SCRIPT.fullmatch(word):
            return ""
        if word.endswith(".py"):
            return word if _SIMPLE.fullmatch(word) else ""
    return ""


def _program(command: Command) -> str:
    """What is executed first; "" where only the shell or the start can tell."""
    if not isinstance(command, str):
        return command[0]
    word = _FIRST_WORD.match(command)
    return "" if word is None or word[1] in _SHELLS_OWN else word[1]


def _program_trouble(program: str, task: TaskSpec, base: Mapping[str, str]) -> tuple[str, str] | None:
    """What is wrong, and what to do."""
    if not program or "\0" in program:  # {python}: the interpreter has a check of its own
        return None
    if "/" not in program:
        path = _search_path(task, base)
        found = "\0" in path or shutil.which(program, path=path)
        return None if found else (f"{program} is not on the task's PATH", "write its path, or set python")
    path = os.path.join(task.cwd, program)
    if not os.path.exists(path):
        return f"{path} is not there", "mend the command"
    if not os.access(path, os.X_OK):
        return f"{path} is not executable", f"chmod +x {path}"
    return None


def _search_path(task: TaskSpec, base: Mapping[str, str]) -> str:
    """The task's PATH; placeholders may be left in it."""
    env = dict(base)
    use_python(env, task)
    return dict(task.work.env).get("PATH") or env["PATH"]
