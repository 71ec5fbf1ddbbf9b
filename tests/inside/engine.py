"""What the tests of tests/engine use of the inside of gpudeck: what moves there is changed here alone."""

from gpudeck.cli.commands.clean import Left, Plan, carry_out
from gpudeck.cli.commands.clean import run as clean
from gpudeck.cli.commands.init import init
from gpudeck.cli.commands.service import Deck, find_unit, run, service, unit_text, units_folder, write_unit
from gpudeck.engine.adapters.journal.journal import SqliteJournal
from gpudeck.engine.adapters.state.folder import load_environment, save_environment
from gpudeck.engine.adapters.state.lock import DeckLock, held_by
from gpudeck.engine.client.detach import Logout, kills_processes, lingers, look_at_logout, start_detached
from gpudeck.engine.client.place import Place
from gpudeck.engine.command import Command
from gpudeck.engine.decks.offline import OfflineDeck, open_offline
from gpudeck.engine.decks.opening import open_deck
from gpudeck.engine.decks.options import as_before, changed, continued, decode, difference
from gpudeck.engine.engine import Engine
from gpudeck.engine.fit.search import Search, grid
from gpudeck.engine.logs.curves import Curve
from gpudeck.engine.logs.files import LogNames
from gpudeck.engine.results.compare import compare
from gpudeck.engine.results.difference import MOST_MORE, Difference, student_quantile
from gpudeck.engine.results.overlay import Member, axes_of, drawn, grouped, mean_of, smoothed, value_at
from gpudeck.engine.results.results import Result
from gpudeck.engine.results.table import FORMATS, Cell, Column, Layout, Table, decimals_for, tabulate
from gpudeck.engine.serve.details import rung_changes
from gpudeck.engine.serve.offline import OfflineLook, OfflineScreen, can_be_shown, tasks_meant
from gpudeck.engine.serve.pages import AT_ONCE as GRAPH_AT_ONCE
from gpudeck.engine.serve.pages import ATTEMPTS_AT_ONCE as TIMELINE_AT_ONCE
from gpudeck.engine.serve.pages import FailuresArgs, Graphs, TimelineArgs, failures, timeline
from gpudeck.engine.taskfile.check import check_name
from gpudeck.engine.taskfile.init import names_for, read_commands
from gpudeck.engine.taskfile.load import load
from gpudeck.engine.taskfile.options import RunOptions
from gpudeck.engine.text import measured
