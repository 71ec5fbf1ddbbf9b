"""What the tests of tests/slurm use of the inside of gpudeck: what moves there is changed here alone."""

from gpudeck.engine.adapters.host import boottime_s
from gpudeck.engine.adapters.programs import Answer, run_program
from gpudeck.engine.adapters.slurm import jobfiles, launcher
from gpudeck.engine.adapters.slurm.calls import small_environment
from gpudeck.engine.adapters.slurm.cluster import ClusterView, Gpus, UserJob, cluster_of, partitions_of, read_cluster
from gpudeck.engine.adapters.slurm.jobfiles import says_killed, says_memory, void
from gpudeck.engine.adapters.slurm.next_step import Limits
from gpudeck.engine.adapters.slurm.states import in_words, never_starts
from gpudeck.engine.adapters.slurm.submission import submit
from gpudeck.engine.doctor.slurm import Call, Wish, look
from gpudeck.engine.doctor.slurm_trial import try_job
