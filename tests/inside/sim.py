"""What the tests of tests/sim use of the inside of gpudeck: what moves there is changed here alone."""

from collections.abc import Callable, Sequence
from typing import Any

from gpudeck.engine import loop
from gpudeck.engine.adapters import host
from gpudeck.engine.adapters.programs import Answer
from gpudeck.engine.adapters.slurm import calls as _calls
from gpudeck.engine.adapters.slurm import jobfiles, launcher, next_step, submission
from gpudeck.engine.adapters.slurm.calls import Calls
from gpudeck.engine.adapters.slurm.launcher import SlurmLauncher
from gpudeck.engine.attempts import end
from gpudeck.engine.attempts.end import Ends
from gpudeck.engine.core import apply as apply_module
from gpudeck.engine.core import apply_acts, dispatch, fit, preempt, step
from gpudeck.engine.core import attempts as core_attempts
from gpudeck.engine.core.turn import Turn
from gpudeck.engine.decks import handover, loading
from gpudeck.engine.decks.cuda_devices import choose
from gpudeck.engine.decks.gpus import BoxGpus
from gpudeck.engine.decks.journal_recovery import unsettled
from gpudeck.engine.decks.loading import Loaded, Past
from gpudeck.engine.decks.options import ASKED_ONLY, Purpose, decode, encode
from gpudeck.engine.ending import Ending, Mode
from gpudeck.engine.live import looking, reading, worker
from gpudeck.engine.live.change import under
from gpudeck.engine.live.live_file import LiveFile, answer
from gpudeck.engine.live.plan import Choices
from gpudeck.engine.loop import Loop
from gpudeck.engine.protocol.picture import Picture, folded
from gpudeck.engine.quiet import QuietStart
from gpudeck.engine.report.reporter import Reporter
from gpudeck.engine.serve import server
from gpudeck.engine.serve.pictures import Pictures
from gpudeck.engine.serve.requests import Hooks, Requests
from gpudeck.engine.serve.server import Serving
from gpudeck.engine.serve.server_client import Client
from gpudeck.engine.serve.undoing import Undoing
from gpudeck.engine.serve.view import DeckView
from gpudeck.engine.takeup import TakeUp
from gpudeck.engine.taskfile import load as taskfile_load
from gpudeck.engine.taskfile.fit import check_fit
from gpudeck.engine.taskfile.options import RunOptions
from gpudeck.engine.taskfile.settings import on_gpus
from gpudeck.engine.taskfile.source import digest_of


def of_slurm(
    *,
    run_program: object,
    calls: object,
    background: object,
    arrivals: object,
    within: object,
    time: object,
    spacious: Callable[[Any], object],
    void: Callable[[Any], object],
) -> Sequence[tuple[Any, str, object]]:
    """Where the launcher for clusters meets the world: module, name there, and what is to be there instead."""
    return (
        (submission, "run_program", run_program),
        (_calls, "run_program", run_program),
        (launcher, "Calls", calls),
        (launcher, "Background", background),
        (launcher, "Arrivals", arrivals),
        (launcher, "within", within),
        (launcher, "time", time),
        (jobfiles, "write_atomic", spacious(jobfiles.write_atomic)),
        (submission, "write_atomic", spacious(submission.write_atomic)),
        (jobfiles, "void", void(jobfiles.void)),
    )


class slurm_parts:  # noqa: N801
    """Parts of the launcher for clusters."""

    jobfiles, launcher, next_step = jobfiles, launcher, next_step
    SlurmLauncher = SlurmLauncher
