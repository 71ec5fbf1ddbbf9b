"""What the tests of tests/sim use of the inside of gpudeck: what moves there is changed here alone."""

from gpudeck.engine import loop
from gpudeck.engine.adapters import host
from gpudeck.engine.attempt import outcomes
from gpudeck.engine.attempt.completing import Completing
from gpudeck.engine.client import Picture, folded
from gpudeck.engine.core import begins, ends, step
from gpudeck.engine.core import replay as replay_module
from gpudeck.engine.live import kept, taken
from gpudeck.engine.live.apply import Applier
from gpudeck.engine.live.choices import Choices
from gpudeck.engine.live.kept import take_back
from gpudeck.engine.live.reading import Reading
from gpudeck.engine.logs.files import LogFolder
from gpudeck.engine.loop import Loop
from gpudeck.engine.opening.core_gpus import core_gpus
from gpudeck.engine.opening.left_behind import unsettled
from gpudeck.engine.report.reporter import Reporter
from gpudeck.engine.serve.pictures import Pictures
from gpudeck.engine.serve.server_client import Client
from gpudeck.engine.serve.view import DeckView
from gpudeck.engine.takeup import TakeUp
