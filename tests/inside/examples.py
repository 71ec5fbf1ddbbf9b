"""What the tests of tests/examples use of the inside of gpudeck: what moves there is changed here alone."""

from gpudeck.cli.main import main
