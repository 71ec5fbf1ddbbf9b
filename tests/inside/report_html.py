"""What the tests of tests/report_html use of the inside of gpudeck: what moves there is changed here alone."""

from gpudeck.engine.report_html.page import page
