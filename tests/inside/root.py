"""What the tests of tests use of the inside of gpudeck: what moves there is changed here alone."""

from gpudeck.tui import settings as config
from gpudeck.tui.cli import main
from gpudeck.tui.model import DeckModel, Link, LinkKind
from gpudeck.tui.shell.arguments import parse
from gpudeck.tui.shell.verbs import DECK, VERBS
from gpudeck.tui.widgets.deck_header import heading
