"""The [doctor] table: checks of the user's own."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import cast

from ..core.spec import OwnChecks
from .check import Checker
from .placeholders import Scope, shell_template
from .problems import BadValueError
from .schema import DOCTOR

_MODULE = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*")


def own_checks(checker: Checker, constants: Mapping[str, object], environ: Mapping[str, str]) -> OwnChecks:
    """What [doctor] says; {python} and {log_dir} stay for the moment when the checks run."""
    table = checker.table(checker.source.data.get("doctor", {}), ("doctor",), where="[doctor]")
    said = cast("Mapping[str, tuple[str, ...]]", checker.read(table, DOCTOR, ("doctor",), where="[doctor]"))
    scope = Scope(constants, environ, runtime=frozenset({"python", "log_dir"}))
    try:
        run = tuple(cast("str", shell_template(command, scope)) for command in said.get("run", ()))
    except BadValueError as error:
        checker.note(error, ("doctor", "run"), key="run", where="[doctor]")
        run = ()
    imports = said.get("imports", ())
    for name in imports:
        if not _MODULE.fullmatch(name):
            wrong = BadValueError(f'must be names of modules, as "flash_attn", got "{name}"')
            checker.note(wrong, ("doctor", "imports"), key="imports", where="[doctor]")
    return OwnChecks(run, imports)
