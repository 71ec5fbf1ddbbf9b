"""What the tests of tests/e2e use of the inside of gpudeck: what moves there is changed here alone."""

from gpudeck.cli.commands.table import run
from gpudeck.engine.adapters.processes import proc
from gpudeck.engine.adapters.state.lock import held_by
from gpudeck.engine.client.attach import attach
from gpudeck.engine.client.connection import Connection
from gpudeck.engine.command import Command
from gpudeck.engine.taskfile.options import RunOptions
