"""What the tests of tests/contract use of the inside of gpudeck: what moves there is changed here alone."""

from gpudeck.engine.adapters import watch
from gpudeck.engine.adapters.journal import journal
from gpudeck.engine.adapters.journal.journal import SqliteJournal
from gpudeck.engine.adapters.nvml.probe import NvmlProbe
from gpudeck.engine.adapters.processes.launcher import LocalLauncher, become_subreaper
from gpudeck.engine.adapters.processes.proc import Features
from gpudeck.engine.adapters.simulated import SimulatedProbe
