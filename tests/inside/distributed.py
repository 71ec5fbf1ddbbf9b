"""What the tests of tests/distributed use of the inside of gpudeck: what moves there is changed here alone."""

from gpudeck.engine.logs.marks import said_in
