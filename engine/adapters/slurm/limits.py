"""How long the engine waits for what."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """All in seconds."""

    settle_s: float = 12.0
    """From Slurm's word that a job is over to believing it without the word of its wrapper: two heartbeats, for what
    beats meanwhile lives."""
    stale_s: float = 90.0
    """A heartbeat that has not been written for so long is nobody's: a wrapper that cannot see its folder ends its
    tree after 45 s, and file servers' clients may show what is a minute old."""
    vanished_s: float = 10.0
    """Between the looks that agree on a job's not being in the queue."""
    word_s: float = 15.0
    """What Slurm's word is waited for at most, where a job was ended by somebody else."""
    beyond_grace_s: float = 10.0
    """What a wrapper gets beyond the grace before Slurm is asked to end the job."""
    message_timeout_s: float = 10.0
    """Slurm's MessageTimeout where it cannot be asked: how long a request of a call may be under way."""
    judge_s: float = 1.0
    """Between judgements of jobs that something is wrong with."""
    back_off_s: float = 5.0
    """After Slurm takes no job for now; it doubles."""
    longest_back_off_s: float = 60.0
