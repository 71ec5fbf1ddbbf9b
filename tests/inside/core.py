"""What the tests of tests/core use of the inside of gpudeck: what moves there is changed here alone."""

from gpudeck.engine.adapters.slurm.cluster import ClusterView, Gpus, Partition, UserJob
from gpudeck.engine.attempts.environment import Box
from gpudeck.engine.attempts.start_plan import Planner
from gpudeck.engine.logs.described import describe
from gpudeck.engine.logs.files import AttemptPaths, LogFolder
from gpudeck.engine.report.forecasts import Forecasts
from gpudeck.engine.report.numbers import counts_of
from gpudeck.engine.report.status import Times, status_of
from gpudeck.engine.serve.cluster_rows import ClusterRows
from gpudeck.engine.serve.details import details_of
from gpudeck.engine.serve.gpu_rows import GpuRows
from gpudeck.engine.serve.pages import TimelineArgs, attempts_of
from gpudeck.engine.serve.requested import select
from gpudeck.engine.serve.view import DeckView
