"""What a training script may have to say to its user."""

from __future__ import annotations


class DistributedError(RuntimeError):
    """Something that the user can mend. `str(error)` is the whole message: what, where, what to do."""


class DistributedWarning(UserWarning):
    """It goes on, but not as was asked for, or not as is usually meant."""
