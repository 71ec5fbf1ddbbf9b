"""What the tests of tests use of the inside of gpudeck: what moves there is changed here alone."""

from gpudeck.cli.arguments import parse
from gpudeck.cli.main import main
from gpudeck.cli.verbs import DECK, VERBS
from gpudeck.tui import settings as config
from gpudeck.tui.model import DeckModel, Link, LinkKind
from gpudeck.tui.widgets.deck_header import heading
