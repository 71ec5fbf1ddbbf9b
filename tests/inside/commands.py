"""What the tests of tests/commands use of the inside of gpudeck: what moves there is changed here alone."""

from gpudeck.cli.arguments import parse, parser_of
from gpudeck.cli.commands.explain import _instead, _state
from gpudeck.cli.commands.logs import LINE_CHARS, Lines
from gpudeck.cli.commands.plan import seconds_until
from gpudeck.cli.commands.rows import is_text, note_text, place_text, state_text, time_text, tone, waits_text
from gpudeck.cli.commands.show import _place
from gpudeck.cli.main import main
from gpudeck.cli.verbs import DECK, HABITS, VERBS
from gpudeck.engine.adapters.state.sockets import listen
from gpudeck.engine.client.files import queue_home
from gpudeck.engine.command import Command
from gpudeck.engine.decks.options import decode
from gpudeck.engine.hints import Hints
from gpudeck.engine.logs.log_file import BLOCK_BYTES, LogTail
from gpudeck.engine.logs.signs import GPU_MEMORY_HINT
from gpudeck.engine.runs.book import Book
from gpudeck.engine.runs.engines import Engines
from gpudeck.engine.runs.wanted import Wanted, wanted_of
from gpudeck.engine.submit.jobs import Piece, Unit, Waits, missing, units_of, waits_of
from gpudeck.engine.submit.write import Standing, Stands, not_expressed
from gpudeck.engine.taskfile.load import load
from gpudeck.engine.taskfile.options import RunOptions
