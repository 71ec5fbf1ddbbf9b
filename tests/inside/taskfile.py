"""What the tests of tests/taskfile use of the inside of gpudeck: what moves there is changed here alone."""

import tomllib
from collections.abc import Mapping

from gpudeck.engine.taskfile.command import RuntimeValues, asked, default_python, finish, named_python
from gpudeck.engine.taskfile.find import find_task_file
from gpudeck.engine.taskfile.fit import check_environment, check_fit, gpus_in, refuse_later
from gpudeck.engine.taskfile.layers import expanded_with
from gpudeck.engine.taskfile.load import load, load_settings
from gpudeck.engine.taskfile.options import Box, RunOptions
from gpudeck.engine.taskfile.placeholders import HOLE, Place, places, without_markers
from gpudeck.engine.taskfile.problems import BadValueError
from gpudeck.engine.taskfile.reference import FILE, PAGE, filled, json_schema, written
from gpudeck.engine.taskfile.schema import DECK, IGNORED_VARIABLES, TASK, Table
from gpudeck.engine.taskfile.source import Lines
from gpudeck.engine.taskfile.units import deck_gpus, duration_s, halt, signal_name, size_mib, slots_per_gpu


def _defaults(table: Table) -> Mapping[str, object]:
    """What the reference shows, as the engine keeps values; without those that depend on something ("CPU cores")."""
    found: dict[str, object] = {}
    for name, key in table.items():
        try:
            value = tomllib.loads(f"value = {key.default}")["value"]
        except tomllib.TOMLDecodeError:
            continue
        found[name] = key.kind.read(value)
    return found


OF_TASK = _defaults(TASK)
OF_DECK = _defaults(DECK)
