"""What the tests of tests/doctor use of the inside of gpudeck: what moves there is changed here alone."""

from gpudeck.engine.adapters.nvml.probe import NvmlProbe
from gpudeck.engine.adapters.slurm.cluster import partitions_of
from gpudeck.engine.adapters.slurm.states import FAILED
from gpudeck.engine.attempt.programs import look_for_programs
from gpudeck.engine.doctor import child, gpu_checks, host_look
from gpudeck.engine.doctor.card_checks import check_cards, is_idle
from gpudeck.engine.doctor.child import Child, Ended, run
from gpudeck.engine.doctor.finding import Finding
from gpudeck.engine.doctor.gpu_look import Gpus, look_at, read_each
from gpudeck.engine.doctor.host_checks import check_disk, check_kernel, check_logout, check_ports, check_shared_memory
from gpudeck.engine.doctor.host_checks import check_limits as host_checks_check_limits
from gpudeck.engine.doctor.host_look import Disk, Limits, Ports
from gpudeck.engine.doctor.isolation import Place, check_isolation, look_from_each
from gpudeck.engine.doctor.load_checks import check_load, workers_in
from gpudeck.engine.doctor.patience import within
from gpudeck.engine.doctor.python_checks import Wanted, check_python, has_torch, look_inside
from gpudeck.engine.doctor.ranks import Launched, check_ranks, launch
from gpudeck.engine.doctor.slurm import check_slurm, look_for_slurm
from gpudeck.engine.doctor.slurm_checks import (
    check_account,
    check_answer,
    check_cores,
    check_gpus,
    check_partitions,
    check_requests,
    check_times,
)
from gpudeck.engine.doctor.slurm_checks import check_limits as slurm_checks_check_limits
from gpudeck.engine.doctor.slurm_look import (
    NEEDED,
    Association,
    SlurmFacts,
    associations_of,
    caller,
    config_of,
    look,
    times_of,
)
from gpudeck.engine.doctor.slurm_trial import Trial, check_trial
from gpudeck.engine.doctor.slurm_wishes import Wish, wishes
from gpudeck.engine.doctor.subject import Interpreter
from gpudeck.engine.linger import Logout
from gpudeck.engine.taskfile.load import load
