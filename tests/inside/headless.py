"""What the tests of tests/headless use of the inside of gpudeck: what moves there is changed here alone."""

from gpudeck.engine.headless import writer
from gpudeck.engine.headless.github import MAX_BYTES, command, page
from gpudeck.engine.headless.junit import junit_xml
from gpudeck.engine.headless.lines import (
    end_line,
    note_line,
    opened_lines,
    settled_line,
    start_line,
    status_line,
    submit_line,
)
from gpudeck.engine.headless.live import Frame, bar, block_lines, cell_width, fit
from gpudeck.engine.headless.narrate import Narrator
from gpudeck.engine.headless.output import HeadlessOptions, HeadlessOutput
from gpudeck.engine.headless.summary import summary_lines
from gpudeck.engine.headless.writer import AppendLog, AsideLog, StreamWriter
from gpudeck.engine.text import duration, hhmmss, log_line, mib_text, printable, ranges, wh_text
