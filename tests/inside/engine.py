"""What the tests of tests/engine use of the inside of gpudeck: what moves there is changed here alone."""

from gpudeck.engine.adapters.journal.journal import SqliteJournal
from gpudeck.engine.adapters.state.folder import load_environment, save_environment
from gpudeck.engine.adapters.state.lock import DeckLock, held_by
from gpudeck.engine.attempt.cluster import cards_of
from gpudeck.engine.attempt.environment import attempt_environment, base_environment
from gpudeck.engine.attempt.launching import launch_env, launched, ranks_of, threads_each
from gpudeck.engine.attempt.node_usage import NodeUsage, rounds_in
from gpudeck.engine.attempt.orders import Box, Orders
from gpudeck.engine.attempt.unkilled import LATE_S, Unkilled
from gpudeck.engine.attempt.usage import Usage
from gpudeck.engine.client.detach import Logout, kills_processes, lingers, look_at_logout, start_detached
from gpudeck.engine.client.place import Place
from gpudeck.engine.command import Command
from gpudeck.engine.commands.clean import run as clean
from gpudeck.engine.commands.init import init
from gpudeck.engine.commands.service import Deck, find_unit, run, service, unit_text, units_folder, write_unit
from gpudeck.engine.engine import Engine
from gpudeck.engine.fit.search import Search, grid
from gpudeck.engine.logs import helper
from gpudeck.engine.logs.files import AttemptPaths, LogFolder, LogNames
from gpudeck.engine.logs.follow import FILES, WATCH
from gpudeck.engine.logs.record import last_scores
from gpudeck.engine.offline.deck import Offline, open_offline
from gpudeck.engine.offline.look import OfflineLook
from gpudeck.engine.offline.screen import OfflineScreen, can_be_shown
from gpudeck.engine.opening.opening import open_deck
from gpudeck.engine.opening.run_options import as_before, changed, continued, decode, difference
from gpudeck.engine.progress import last_metrics
from gpudeck.engine.progress.last_metrics import LastMetrics
from gpudeck.engine.progress.reported import NOTHING, Reported
from gpudeck.engine.results.results import Result
from gpudeck.engine.results.table import FORMATS, Cell, Column, Layout, Table, decimals_for, tabulate
from gpudeck.engine.serve.details import rung_changes
from gpudeck.engine.serve.pages import AT_ONCE as GRAPH_AT_ONCE
from gpudeck.engine.serve.pages import ATTEMPTS_AT_ONCE as TIMELINE_AT_ONCE
from gpudeck.engine.serve.pages import FailuresArgs, Graphs, TimelineArgs, failures, timeline
from gpudeck.engine.taskfile.check import check_name
from gpudeck.engine.taskfile.init import names_for, read_commands
from gpudeck.engine.taskfile.load import load
from gpudeck.engine.taskfile.options import RunOptions
from gpudeck.engine.text import measured
