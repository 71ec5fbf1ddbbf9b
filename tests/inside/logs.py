"""What the tests of tests/logs use of the inside of gpudeck: what moves there is changed here alone."""

from gpudeck.engine.attempts.end import examine
from gpudeck.engine.attempts.running import RunningAttempt
from gpudeck.engine.logs import follow
from gpudeck.engine.logs.cause import split_step, step_cause
from gpudeck.engine.logs.curves import Curve, read_kept
from gpudeck.engine.logs.described import describe
from gpudeck.engine.logs.digest import digest
from gpudeck.engine.logs.failure import classify, hint_of, signal_name
from gpudeck.engine.logs.files import AttemptPaths, Link, LogFolder, LogNames, make_link, safe_name
from gpudeck.engine.logs.follow import METRIC, PROGRESS, WATCH, Follower, HungError, limited_cpu, telling
from gpudeck.engine.logs.growing import FILE_BYTES, LINE_CHARS, MOST_BYTES, MetricsFile, Stream, clean
from gpudeck.engine.logs.log_file import read_tail
from gpudeck.engine.logs.marks import Rank, marks_in, number_of, reader_of, said_in
from gpudeck.engine.logs.metrics import Values, documents, finder, from_text, numbers_at, to_text
from gpudeck.engine.logs.printable import lines_of, printable
from gpudeck.engine.logs.progress import Pace, Tracker
from gpudeck.engine.logs.signs import SIGNS, is_chatter, stands_alone
from gpudeck.engine.logs.totals import Totals
