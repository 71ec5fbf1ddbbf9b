"""Values as shell words, and an environment as shell text. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

_PLAIN = re.compile(r"[\w@%+=:,./-]+", re.ASCII)
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_OF_SHELL = re.compile(
    r"gd_.*|BASH.*|LC_ALL|COMP_.*|EPOCH.*|IFS|ENV|UID|EUID|PPID|SHELLOPTS|POSIXLY_CORRECT|GLOBIGNORE|RANDOM|"
    r"SRANDOM|SECONDS|LINENO|HISTCMD|DIRSTACK|FUNCNAME|FUNCNEST|GROUPS|PIPESTATUS|TMOUT|CHILD_MAX|EXECIGNORE|IGNOREEOF|"
    r"histchars|OPTIND|OPTARG|OPTERR|REPLY|COPROC|PS4"
)
"""To these bash would give other values, or it would heed them."""
_OF_HOST = re.compile(
    r"SLURM_.*|SBATCH_.*|SRUN_.*|SSH_.*|DBUS_.*|CUDA_VISIBLE_DEVICES|HOSTNAME|PWD|OLDPWD|SHLVL|TMPDIR|XDG_RUNTIME_DIR|"
    r"DISPLAY|MASTER_ADDR|MASTER_PORT|_"
)
"""They mean the machine, or the session, in which the engine was started; the job's own hold, or none."""


def quoted(text: str) -> str:
    """One word of bash that means *text*, whatever it holds but NUL."""
    if _PLAIN.fullmatch(text):
        return text
    if "\r" in text:  # sbatch refuses scripts with the line breaks of DOS
        return _escaped(text)
    return "'" + text.replace("'", "'\\''") + "'"


def in_one_line(text: str) -> str:
    """As `quoted`, without line breaks."""
    return _escaped(text).replace("\n", "\\n") if "\n" in text else quoted(text)


def _escaped(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'").replace("\r", "\\r")
    return f"$'{escaped}'"


def environment(env: Mapping[str, str], own: Collection[str]) -> str:
    """A function `gd_environment`, which exports what a shell can; and `gd_odd`, words for env(1) that say the rest.

    *own*: names that the task itself sets, or unsets: these go before what a host says.
    """
    kept = {name: value for name, value in env.items() if name in own or not _OF_HOST.fullmatch(name)}
    plain = {name: value for name, value in kept.items() if is_plain(name)}
    unset = sorted(name for name in own if name not in env)
    odd = [word for name in unset for word in ("-u", name)]
    odd += ["--", *(f"{name}={value}" for name, value in kept.items() if name not in plain)]
    return "\n".join(
        [
            "gd_environment() {",
            ":",
            *(f"export {name}={quoted(value)}" for name, value in plain.items()),
            "}",
            f"gd_odd=({' '.join(map(quoted, odd))})",
        ]
    )


def is_plain(name: str) -> bool:
    """Whether bash can export it and give it no meaning of its own."""
    return _IDENTIFIER.fullmatch(name) is not None and not _OF_SHELL.fullmatch(name)
