"""What the tests of tests/faults use of the inside of gpudeck: what moves there is changed here alone."""

from gpudeck.engine.attempts.record import read_record
from gpudeck.engine.decks.journal_recovery import recover
