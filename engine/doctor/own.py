"""Programs that tasks name, and checks of the user's own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from ..attempt.programs import look_for_programs
from ..core.spec import DeckFile, TaskSpec
from ..taskfile.command import shell
from ..taskfile.placeholders import without_markers
from ..taskfile.shell import fill_shell
from .child import Ended, run, within
from .finding import Finding, fail, ok, warn
from .subject import Interpreter

_FILES_S = 5.0


def check_programs(tasks: Sequence[TaskSpec], base: Mapping[str, str], *, here: bool) -> Iterator[Finding]:
    """A file server that does not answer is no missing file. *here*: see `look_for_programs`."""
    try:
        missing = within(_FILES_S, partial(look_for_programs, tasks, base, here=here))
    except TimeoutError:
        missing = []
    for each in missing:
        kind = warn if each.later else fail
        yield kind("command", f"{each.task}: {each.text}", each.remedy)
    if not missing:
        yield ok("command", "programs and scripts that the commands name are there")


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
