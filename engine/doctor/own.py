"""Checks of the user's own: `run` in [doctor]."""

from __future__ import annotations

from collections.abc import Iterator

from ..core.spec import DeckFile
from ..taskfile.finish import shell
from ..taskfile.placeholders import fill_shell, without_markers
from .child import Ended, run
from .finding import Finding, fail, ok
from .subject import Interpreter

_LIMIT_S = 300.0


def run_own(file: DeckFile, python: Interpreter) -> Iterator[Finding]:
    """Each command in the task file's folder, one after the other."""
    known = {"python": python.path, "log_dir": file.settings.log_dir}
    for command in file.own_checks.run:
        text = fill_shell(command, lambda name: known[name])
        ended = run([shell(), "-c", text], env=python.env, cwd=_folder(file), limit_s=_LIMIT_S)
        yield check_own(without_markers(command), ended)


def check_own(command: str, ended: Ended) -> Finding:
    if ended.code == 0:
        return ok("own check", command)
    return fail("own check", f"{command}: {ended.how}", "[doctor] run in the task file has it")


def _folder(file: DeckFile) -> str:
    return file.path.rpartition("/")[0] or "/"
