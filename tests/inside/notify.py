"""What the tests of tests/notify use of the inside of gpudeck: what moves there is changed here alone."""

from gpudeck.engine.notify import sender
from gpudeck.engine.notify.message import MAX_LINES, Happening, Notice, Origin, fold
from gpudeck.engine.notify.sender import Mark, Sender, Settings
from gpudeck.engine.notify.targets import Targets, resolve
