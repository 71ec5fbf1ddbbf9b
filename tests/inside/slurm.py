"""What the tests of tests/slurm use of the inside of gpudeck: what moves there is changed here alone."""

from gpudeck.engine.adapters.host import boottime_s
from gpudeck.engine.adapters.slurm import accounting, ends, jobfiles
from gpudeck.engine.adapters.slurm.calls import Answer, run_program, small_environment
from gpudeck.engine.adapters.slurm.cluster import ClusterView, Gpus, UserJob, cluster_of, partitions_of, read_cluster
from gpudeck.engine.adapters.slurm.ends import says_killed, says_memory
from gpudeck.engine.adapters.slurm.jobfiles import void
from gpudeck.engine.adapters.slurm.jobs import Limits
from gpudeck.engine.adapters.slurm.states import in_words, never_starts
from gpudeck.engine.adapters.slurm.submitting import Taken, submit
from gpudeck.engine.doctor.slurm import Wish, caller, look
from gpudeck.engine.doctor.slurm_trial import try_job
