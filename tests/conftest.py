"""No test touches the file by which the decks of this box keep GPUs apart."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile

FOLDER = os.path.join(tempfile.gettempdir(), f"gpudeck-tests-{os.getpid()}.locks")
os.environ["GPUDECK_LOCK_DIR"] = FOLDER
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # under nohup everything that is started would ignore it


def pytest_sessionfinish() -> None:
    shutil.rmtree(FOLDER, ignore_errors=True)
