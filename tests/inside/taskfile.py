"""What the tests of tests/taskfile use of the inside of gpudeck: what moves there is changed here alone."""

from gpudeck.engine.taskfile.cluster import gpus_in
from gpudeck.engine.taskfile.defaults import OF_DECK, OF_TASK
from gpudeck.engine.taskfile.find import find_task_file
from gpudeck.engine.taskfile.fingerprint import IGNORED_VARIABLES
from gpudeck.engine.taskfile.finish import RuntimeValues, asked, finish
from gpudeck.engine.taskfile.fit import check_environment, check_fit
from gpudeck.engine.taskfile.interpreter import default_python, named_python
from gpudeck.engine.taskfile.jsonschema import FILE, json_schema, written
from gpudeck.engine.taskfile.later import refuse_later
from gpudeck.engine.taskfile.layers import expanded_with
from gpudeck.engine.taskfile.lines import Lines
from gpudeck.engine.taskfile.load import load, load_settings
from gpudeck.engine.taskfile.options import Box, RunOptions
from gpudeck.engine.taskfile.placeholders import without_markers
from gpudeck.engine.taskfile.problems import BadValueError
from gpudeck.engine.taskfile.quoting import HOLE, Place, places
from gpudeck.engine.taskfile.reference import PAGE, filled
from gpudeck.engine.taskfile.schema import DECK, TASK
from gpudeck.engine.taskfile.units import deck_gpus, duration_s, halt, signal_name, size_mib, slots_per_gpu
