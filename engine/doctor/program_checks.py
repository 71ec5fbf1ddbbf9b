"""Whether what the tasks' commands name is there, as findings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from ..attempt.programs import look_for_programs
from ..core.spec import TaskSpec
from .finding import Finding, fail, ok, warn
from .patience import within

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
