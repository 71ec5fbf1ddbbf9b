"""What the tests of tests/attempts use of the inside of gpudeck: what moves there is changed here alone."""

from gpudeck.engine.adapters.background import Background
from gpudeck.engine.attempts import progress, writer
from gpudeck.engine.attempts.attempts import LATE_S, Stops
from gpudeck.engine.attempts.container import Container, chosen, contained
from gpudeck.engine.attempts.end import examine, outlived
from gpudeck.engine.attempts.environment import base_environment
from gpudeck.engine.attempts.gpu_history import MOST_POINTS, GpuHistory, Point, Used, encode_history, read_history
from gpudeck.engine.attempts.launching import cards_of, launch_env, launched, ranks_of, threads_each
from gpudeck.engine.attempts.outputs import OutputStamp, outputs_exist, stamp_outputs
from gpudeck.engine.attempts.progress import NOTHING, LastMetrics
from gpudeck.engine.attempts.record import last_scores, read_record, stamps_in
from gpudeck.engine.attempts.running import Followed, RunningAttempt
from gpudeck.engine.attempts.secrets import is_secret, masked_command, masked_env
from gpudeck.engine.attempts.start_plan import Box, Planner
from gpudeck.engine.attempts.usage import NodeUsage, Usage, rounds_in
from gpudeck.engine.attempts.watching import WatchRules
from gpudeck.engine.attempts.writer import AttemptJsonWriter
from gpudeck.engine.logs import helper
from gpudeck.engine.logs.described import describe
from gpudeck.engine.logs.failure import hint_of
from gpudeck.engine.logs.files import AttemptPaths, Link, LogFolder, LogNames
from gpudeck.engine.logs.follow import FILES, WATCH
from gpudeck.engine.taskfile.load import load
