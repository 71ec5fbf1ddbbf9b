"""What the tests of tests/server use of the inside of gpudeck: what moves there is changed here alone."""

from gpudeck.engine.adapters.state.lock import held_by, read_holder
from gpudeck.engine.adapters.state.sockets import Listener, connect, listen, peer_uid
from gpudeck.engine.client.connection import Connection, Gone
from gpudeck.engine.decks.states import find_state
from gpudeck.engine.serve.cluster_watch import PERIOD_S, ClusterWatch
from gpudeck.engine.serve.server import Server
from gpudeck.engine.taskfile.load import load_settings
from gpudeck.engine.taskfile.options import RunOptions
