"""Each process that runs tests has a box of its own: no test touches the file by which the decks of this one keep GPUs
apart. Hypothesis tries few examples, the same each time; many, and others, in the set `soak`."""

from __future__ import annotations

import asyncio
import inspect
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings

from tests import sets
from tests.fakes import forked, reached

if TYPE_CHECKING:
    from tests.e2e.decks import Deck

FOLDER = os.path.join(tempfile.gettempdir(), f"gpudeck-tests-{os.getpid()}.locks")
os.environ["GPUDECK_LOCK_DIR"] = FOLDER
os.environ["XDG_STATE_HOME"] = f"{FOLDER}/state"
# Processes by the hundred import the same modules: what one has compiled the others read, whatever the shell says.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # under nohup everything that is started would ignore it
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:  # as in the background of a shell
    signal.signal(signal.SIGINT, signal.default_int_handler)

_SLOW_IS_FINE = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.function_scoped_fixture]
settings.register_profile(
    "quick",
    max_examples=20,
    stateful_step_count=20,
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=_SLOW_IS_FINE,
)
settings.register_profile(
    "thorough", max_examples=300, stateful_step_count=50, deadline=None, suppress_health_check=_SLOW_IS_FINE
)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--shuffle", metavar="SEED", help="run files, and the tests of each, in another order")
    parser.addoption("--record", action="store_true", help="of the set gpu: write what was seen to docs/dev/gpus-seen/")


def pytest_configure(config: pytest.Config) -> None:
    sets.configure(config)
    settings.load_profile("thorough" if sets.wants_thoroughness(config) else "quick")
    forked.fork_what_gpudeck_starts()


_recorder = reached.record(os.environ.get(reached.VARIABLE))


def pytest_runtest_logstart(nodeid: str) -> None:
    if _recorder is not None:
        _recorder.test(nodeid)


def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """A test that is a coroutine has an event loop of its own."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    given = {name: pyfuncitem.funcargs[name] for name in inspect.signature(pyfuncitem.obj).parameters}
    asyncio.run(pyfuncitem.obj(**given))
    return True


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    return sets.workers(config)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    return sets.scheduler(config, log)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    return sets.ignored(collection_path, config)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    sets.sort(config, items)
    if seed := config.getoption("--shuffle"):
        sets.shuffle(items, seed)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    sets.summary(terminalreporter, config)


def pytest_sessionfinish() -> None:
    forked.close_server()
    shutil.rmtree(FOLDER, ignore_errors=True)


@pytest.fixture
def deck(tmp_path: Path) -> Iterator[Deck]:
    """A folder for true engines and tasks."""
    from tests.e2e.decks import deck_in

    with deck_in(tmp_path) as deck:
        yield deck
