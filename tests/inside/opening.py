"""What the tests of tests/opening use of the inside of gpudeck: what moves there is changed here alone."""

from gpudeck.engine.opening.backends import (
    may_have_jobs,
    passed_over_nodelists,
    refuse_elsewhere,
    require_cluster,
    tokens_recorded,
)
from gpudeck.engine.opening.left_behind import unsettled
from gpudeck.engine.opening.regained import regain
