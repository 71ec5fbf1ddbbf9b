"""What the tests of tests/decks use of the inside of gpudeck: what moves there is changed here alone."""

from gpudeck.engine.decks.cluster import (
    may_have_jobs,
    passed_over_nodelists,
    refuse_other_backend,
    require_cluster,
    tokens_recorded,
)
from gpudeck.engine.decks.journal_recovery import recover, sweep_records, unsettled
