"""What the tests of tests/adapters use of the inside of gpudeck: what moves there is changed here alone."""

from gpudeck.cli.commands.gpus import report
from gpudeck.engine.adapters import allocation as relay
from gpudeck.engine.adapters import host, watch
from gpudeck.engine.adapters.alarm import Alarm
from gpudeck.engine.adapters.allocation import (
    Allocation,
    AllocationProbe,
    Node,
    across,
    look_at_allocation,
    node_of,
    nodes_in,
    relayed,
    step,
    step_anywhere,
)
from gpudeck.engine.adapters.background import Background
from gpudeck.engine.adapters.claims.claims import Claims
from gpudeck.engine.adapters.claims.file import WRAPPER_FD, LockFile, byte_of, inherited, is_locked, lock_folder
from gpudeck.engine.adapters.claims.names import Claim, Entry, claims_on, describe
from gpudeck.engine.adapters.host import boottime_s, has_nvidia_hardware
from gpudeck.engine.adapters.inotify import Arrivals
from gpudeck.engine.adapters.journal.codec import FactCodec, Row, UnknownFactError, place
from gpudeck.engine.adapters.journal.db import SCHEMA, Schema, look_at, open_db
from gpudeck.engine.adapters.journal.journal import SqliteJournal
from gpudeck.engine.adapters.nvml.calls import Nvml
from gpudeck.engine.adapters.nvml.device import Device, owned, reasons_in_words
from gpudeck.engine.adapters.nvml.probe import NvmlProbe
from gpudeck.engine.adapters.processes import adopt, launcher, proc, record, wrapper
from gpudeck.engine.adapters.processes.proc import Features
from gpudeck.engine.adapters.processes.wrapper import RAISED_BY, ChildrenFirst, arguments_of, wrapper_text
from gpudeck.engine.adapters.sampling import MIN_GAP_S, Sampling
from gpudeck.engine.adapters.simulated import TOTAL_MIB, SimulatedProbe, mib_at, told_use
from gpudeck.engine.adapters.slurm import jobfiles, submission
from gpudeck.engine.adapters.slurm.calls import small_environment
from gpudeck.engine.adapters.slurm.job import Job, Seen, Stop, recovered
from gpudeck.engine.adapters.slurm.jobfiles import Began, Ended, read_files, read_left, sweep
from gpudeck.engine.adapters.slurm.next_step import Kill, Limits, next_step
from gpudeck.engine.adapters.slurm.parse import (
    SlurmJob,
    expand_nodes,
    refusal,
    sacct_jobs,
    squeue_jobs,
    submitted_id,
    timestamp,
)
from gpudeck.engine.adapters.slurm.script import (
    SBATCH,
    WRAPPER,
    array_script,
    asks,
    ignored_nodelist,
    job_name,
    quoted,
    script,
    unasked,
)
from gpudeck.engine.adapters.slurm.states import cause_of, in_words, stand
from gpudeck.engine.adapters.slurm.submission import Outbox
from gpudeck.engine.adapters.state.folder import (
    StateDir,
    find_state_dir,
    load_environment,
    open_state_dir,
    save_environment,
)
from gpudeck.engine.adapters.state.lock import DeckLock, Machine, held_by, read_holder, this_machine
from gpudeck.engine.adapters.state.mounts import file_system
from gpudeck.engine.adapters.watch import send
from gpudeck.engine.decks.cuda_devices import choose, cuda_visible_devices
from gpudeck.engine.decks.gpus import look_at_gpus
from gpudeck.engine.sampler import sample_once
