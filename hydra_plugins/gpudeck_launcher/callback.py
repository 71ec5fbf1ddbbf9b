"""Keeps what a job returned beside the log of its attempt: Hydra itself drops it when the job's process ends."""

from __future__ import annotations

import os
import pickle
import traceback
from pathlib import Path
from typing import Any

from hydra.core.utils import JobReturn, JobStatus
from hydra.experimental.callback import Callback
from omegaconf import DictConfig


def kept_path(log: str) -> Path:
    """Where an attempt keeps its JobReturn. *log*: its attempt-N.log."""
    return Path(log).with_suffix(".return.pickle")


class KeepReturn(Callback):
    """Of a job that is started by hand nothing is kept."""

    def on_job_end(self, config: DictConfig, job_return: JobReturn, **kwargs: Any) -> None:  # noqa: ARG002 Hydra's
        log = os.environ.get("GPUDECK_LOG")
        if not log or os.environ.get("RANK", "0") != "0":  # one process of several that torchrun has started
            return
        error = job_return._return_value  # pyright: ignore[reportPrivateUsage] its property raises an exception of the job
        if job_return.status is JobStatus.FAILED and isinstance(error, BaseException):
            error.add_note("".join(traceback.format_exception(error)).rstrip())
            job_return.return_value = _plain(error)
        path = kept_path(log)
        draft = path.with_suffix(f".{os.getpid()}")
        draft.write_bytes(pickle.dumps(job_return))
        draft.replace(path)
        job_return.return_value = error


def _plain(error: BaseException) -> BaseException:
    """What cannot be pickled, or not be read again, is told by its text."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        plain = RuntimeError(f"{type(error).__name__}: {error}")
        plain.__notes__ = [*error.__notes__]
        return plain
    return error
