"""What the tests of tests/live use of the inside of gpudeck: what moves there is changed here alone."""

from gpudeck.engine.decks.handover import load_specs as kept_load
from gpudeck.engine.decks.handover import save_specs as save
from gpudeck.engine.decks.handover import take_back
from gpudeck.engine.decks.opening import open_deck
from gpudeck.engine.engine import Engine
from gpudeck.engine.live import add as live_add
from gpudeck.engine.live import apply, live_file, looking, watch, words
from gpudeck.engine.live.add import Added, Addition
from gpudeck.engine.live.add import add as add_add
from gpudeck.engine.live.looking import Looking
from gpudeck.engine.live.plan import Change, FilePlan, as_they_stand, make_plan, settings_for_now
from gpudeck.engine.live.watch import FileWatch
from gpudeck.engine.live.worker import Worker
from gpudeck.engine.taskfile.load import load as load_load
from gpudeck.engine.taskfile.options import RunOptions
