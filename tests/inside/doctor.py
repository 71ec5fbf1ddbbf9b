"""What the tests of tests/doctor use of the inside of gpudeck: what moves there is changed here alone."""

from gpudeck.engine.adapters.background import within
from gpudeck.engine.adapters.nvml.probe import NvmlProbe
from gpudeck.engine.adapters.slurm.cluster import partitions_of
from gpudeck.engine.adapters.slurm.states import FAILED
from gpudeck.engine.client.detach import Logout
from gpudeck.engine.doctor import child
from gpudeck.engine.doctor import gpus as gpu_checks
from gpudeck.engine.doctor import host as host_look
from gpudeck.engine.doctor.child import Child, Ended, run
from gpudeck.engine.doctor.containers import check_containers
from gpudeck.engine.doctor.finding import Finding
from gpudeck.engine.doctor.gpus import Gpus, check_cards, is_idle, look_at, read_each
from gpudeck.engine.doctor.host import (
    Disk,
    Limits,
    check_disk,
    check_kernel,
    check_load,
    check_logout,
    check_ports,
    check_shared_memory,
    workers_in,
)
from gpudeck.engine.doctor.host import check_limits as host_checks_check_limits
from gpudeck.engine.doctor.isolation import Place, check_isolation, look_from_each
from gpudeck.engine.doctor.programs import look_for_programs
from gpudeck.engine.doctor.python import Wanted, check_python, check_ranks, has_torch, launch, look_inside
from gpudeck.engine.doctor.slurm import (
    NEEDED,
    Call,
    SlurmFacts,
    Wish,
    associations_of,
    check_account,
    check_answer,
    check_cores,
    check_gpus,
    check_partitions,
    check_requests,
    check_slurm,
    check_times,
    config_of,
    look,
    times_of,
    wishes,
)
from gpudeck.engine.doctor.slurm import check_limits as slurm_checks_check_limits
from gpudeck.engine.doctor.slurm_trial import Trial, check_trial
from gpudeck.engine.doctor.subject import Interpreter
from gpudeck.engine.taskfile.load import load
