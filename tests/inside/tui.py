"""What the tests of tests/tui use of the inside of gpudeck: what moves there is changed here alone."""

from gpudeck.cli.completion import SHELLS, print_script, script
from gpudeck.cli.verbs import VERBS
from gpudeck.engine.adapters import host
from gpudeck.engine.adapters.processes import proc
from gpudeck.engine.adapters.processes.proc import stat
from gpudeck.engine.attempts.record import git_text
from gpudeck.engine.client.place import Place
from gpudeck.engine.command import Command
from gpudeck.engine.logs.curves import KEPT, Curve, Curves, KeptCurves, encode_kept, from_wire, guesses, to_wire
from gpudeck.engine.logs.log_file import Breaks, LogFile
from gpudeck.engine.logs.printable import last_frame
from gpudeck.engine.logs.signs import NEEDLES, tells_an_error
from gpudeck.engine.protocol.alike import groups_of
from gpudeck.engine.results.overlay import Member
from gpudeck.engine.text import command_text
from gpudeck.tui import client, connection, pages
from gpudeck.tui import curve_reader as curves_reader
from gpudeck.tui.acting import doing
from gpudeck.tui.acting.actions import ACTIONS, BY_ID, Action, Where, footer_of, on, shown, use_keys
from gpudeck.tui.acting.choice import Choice
from gpudeck.tui.acting.doing import Doing, Option, Question, Refusal, Request
from gpudeck.tui.app import GpudeckApp
from gpudeck.tui.background import in_thread, lines_from
from gpudeck.tui.client import DeckClient
from gpudeck.tui.connection import PATIENCE_S, QUIET_S, TICK_S, Pulse
from gpudeck.tui.curve_reader import ALIKE, sampled
from gpudeck.tui.curves import MARKS, area, chart, plot
from gpudeck.tui.deck_app import MOST, Toast, Toasts, but_not, came_to_nothing, outcome
from gpudeck.tui.drawing import format
from gpudeck.tui.drawing.filtering import parse as filtering_parse
from gpudeck.tui.drawing.filtering import subject
from gpudeck.tui.drawing.format import clock, length, width_of
from gpudeck.tui.drawing.paragraphs import folded, harmless, links
from gpudeck.tui.drawing.spans import Part, bar, cut, pack
from gpudeck.tui.drawing.view import FLAGS, LOOKS, SPARK_CELLS, Moment, cell, gpu_words, plain_text
from gpudeck.tui.logs import finder as log_finder
from gpudeck.tui.logs import reader as logs_reader
from gpudeck.tui.logs.lines import PLAIN, Sgr, Span, changed, cleaned, shown_text
from gpudeck.tui.logs.query import ERRORS, Matcher, Query, needles_in
from gpudeck.tui.logs.query import parse as query_parse
from gpudeck.tui.logs.reader import Reader
from gpudeck.tui.logs.search import Hits, Told, search
from gpudeck.tui.logs.source import LogSource, paged, source_of
from gpudeck.tui.logs.viewport import MOST_ROWS, Frame, Viewport
from gpudeck.tui.messages import Acted, FilterTable, OpenLogs, OpenTask
from gpudeck.tui.model import DeckModel, Link, LinkKind
from gpudeck.tui.open_web import screen_command
from gpudeck.tui.screens import deck_screen, detail, logs
from gpudeck.tui.screens.curves import CurvesView
from gpudeck.tui.screens.dashboard import Dashboard
from gpudeck.tui.screens.deck_screen import DeckScreen
from gpudeck.tui.screens.detail import Detail, DetailView
from gpudeck.tui.screens.detail_lines import Known, Left
from gpudeck.tui.screens.detail_lines import lines_of as task_lines_lines_of
from gpudeck.tui.screens.errors import ErrorList, ErrorsScreen, summary
from gpudeck.tui.screens.errors import filter_for as errors_filter_for
from gpudeck.tui.screens.errors import lines_of as errors_lines_of
from gpudeck.tui.screens.gpu_processes import GpuProcesses, read_commands, table
from gpudeck.tui.screens.graph import BOX_HEIGHT, GraphScreen, GraphView, line_of, same_shape, told
from gpudeck.tui.screens.graph import filter_for as lines_filter_for
from gpudeck.tui.screens.graph import lay_out as graph_layout_lay_out
from gpudeck.tui.screens.help import KEY_CELLS, LEAST_CELLS, PLACES, HelpLine, Pages, pages_of, told_of
from gpudeck.tui.screens.logs import LogScreen, title_of
from gpudeck.tui.screens.page import PageScreen
from gpudeck.tui.screens.timeline import TimelineScreen, TimelineView
from gpudeck.tui.screens.timeline_lanes import Lane, Sight, Window, axis, lanes_of, pieces, tone_of, whole
from gpudeck.tui.settings import RESERVED, THEMES, Config, Thresholds, load
from gpudeck.tui.terminal import editor_of, logs_for_pager, pager_of, plain, takes_glyphs, with_content
from gpudeck.tui.web import server
from gpudeck.tui.web.environment import is_tab, marked, without_tab
from gpudeck.tui.web.server import Door, Guard, words_of
from gpudeck.tui.widgets.cluster_pane import OLD_S, height_of
from gpudeck.tui.widgets.cluster_pane import lines_of as cluster_lines_of
from gpudeck.tui.widgets.columns import COLUMNS, DEFAULT, WIDE, Contents, chosen, known, measured
from gpudeck.tui.widgets.columns import lay_out as columns_lay_out
from gpudeck.tui.widgets.deck_header import DeckHeader, Note, heading, notes
from gpudeck.tui.widgets.gpu_lines import FOLDED, FULL, SHORT, Drawn, GpuHistory, Layout, Series
from gpudeck.tui.widgets.gpu_lines import lay_out as layout_lay_out
from gpudeck.tui.widgets.gpu_lines import lines_of as lines_lines_of
from gpudeck.tui.widgets.gpu_panes import GpuPanes
from gpudeck.tui.widgets.host_line import Disk, DiskWatch, HostLine, HostReading, host_parts, look_at_disk, read_host
from gpudeck.tui.widgets.key_bar import KeyBar
from gpudeck.tui.widgets.log.stream import (
    LogStream,
    divider_words,
    nothing_words,
    occurrences,
    search_words,
    status_words,
)
from gpudeck.tui.widgets.log.view import BOTH, LogView, Parts, alone, shares, together
from gpudeck.tui.widgets.table import order
from gpudeck.tui.widgets.table.order import Order, TableState, natural, sort_key
from gpudeck.tui.widgets.table.task_table import JUMP_S, TaskTable
from gpudeck.tui.widgets.values_form import ValuesForm
from gpudeck.tui.widgets.waiting import WORDS
