"""Everything that a key does: the one table that bindings, footer, help, palette and docs/keys.md are made from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from textual.binding import Binding

Where = Literal["deck", "tasks", "panes", "gpus", "log", "page", "detail", "timeline", "graph", "errors", "curves"]
"""deck: on every screen; tasks: with the table or a task before one; panes: where several are seen; gpus: on a GPU;
log: in a log; page: on any of the pages that follow, which cover the deck; detail: on the page about one task."""

CHANGES = frozenset({
    "stop", "pause", "apply", "undo", "retry", "retry_menu", "cancel", "kill", "hold", "raise_priority",
    "lower_priority", "drain", "take", "errors_retry",
})  # fmt: skip
"""Actions that ask the engine to change something: refused where one only looks."""


@dataclass(frozen=True, slots=True)
class Action:
    id: str
    """What it is called in config.toml, in code and in the palette."""
    keys: tuple[str, ...]
    """As Textual names them; the first one is shown."""
    label: str
    """One or two words, for the footer."""
    tip: str
    """A sentence, for help, palette and tooltips."""
    where: Where = "tasks"
    footer: int = 0
    """Place in the footer, 1 first; 0: only in the help."""

    @property
    def shown_key(self) -> str:
        return shown(self.keys[0])


SHOWN = {
    "question_mark": "?",
    "slash": "/",
    "plus": "+",
    "equals_sign": "=",
    "minus": "-",
    "greater_than_sign": ">",
    "less_than_sign": "<",
    "colon": ":",
    "left_square_bracket": "[",
    "right_square_bracket": "]",
    "escape": "esc",
    "enter": "enter",
    "space": "space",
    "up": "↑",
    "down": "↓",
    "left": "←",
    "right": "→",
    "pageup": "pgup",
    "pagedown": "pgdn",
}
"""Keys by Textual's names that people write otherwise."""


def shown(key: str) -> str:
    """A key as people write it."""
    key = key.replace("ctrl+", "^")
    modifiers, plus, base = key.rpartition("+")
    return modifiers + plus + SHOWN.get(base, base)


ACTIONS: tuple[Action, ...] = (
    # the deck
    Action("help", ("question_mark", "f1"), "help", "All keys, and what the signs mean", "deck", footer=90),
    Action("palette", ("ctrl+p", "colon"), "palette", "Every action by its name", "deck"),
    Action("leave", ("q", "ctrl+q"), "leave", "Leave: everything goes on, nothing is stopped", "deck", footer=91),
    Action("suspend", ("ctrl+z",), "suspend", "To the shell for a while: fg brings the screen back", "deck"),
    Action("stop", ("Q",), "stop", "Stop the engine, or the tasks too; asks", "deck"),
    Action("pause", ("P",), "pause", "Pause, or go on: nothing more starts, what runs goes on; asks", "deck"),
    Action("apply", ("a",), "apply", "Apply what has changed, in the task file; asks", "deck"),
    Action("edit", ("E",), "edit", "Edit the task file, in $EDITOR", "deck"),
    Action("undo", ("u",), "undo", "Take back the last action, of those done from here", "deck", footer=9),
    Action("errors", ("e",), "errors", "All failures, alike ones together", "deck", footer=7),
    Action("timeline", ("t",), "timeline", "GPUs or nodes over time: what ran where, and the gaps", "deck"),
    Action("graph", ("o",), "graph", "Rounds and needs", "deck"),
    Action("next_pane", ("tab",), "pane", "To the next pane", "deck"),
    Action("previous_pane", ("shift+tab",), "pane back", "To the pane before", "deck"),
    Action("reconnect", ("ctrl+r",), "reconnect", "Start an engine again, where none runs", "deck"),
    # tasks
    Action("down", ("j", "down"), "down", "To the next task"),
    Action("up", ("k", "up"), "up", "To the task before"),
    Action("bottom", ("G", "end"), "bottom", "The last task; in a log its end"),
    Action("top", ("g", "home"), "top", "The first task; in a log its top"),
    Action("page_down", ("pagedown", "ctrl+f"), "page down", "A page on"),
    Action("page_up", ("pageup",), "page up", "A page back"),
    Action(
        "details",
        ("d", "enter"),
        "details",
        "Everything about the task: why it waits, command, curves",
        footer=2,
    ),
    Action("log", ("l",), "log", "Its log; with marks several beside each other", footer=1),
    Action("retry", ("r",), "retry", "Run what failed, was cancelled, pruned or unknown once more", footer=3),
    Action(
        "retry_menu",
        ("R",),
        "retry …",
        "Retry by choice: all failed, changed or stale, one kind, elsewhere, with other values, with debug output",
    ),
    Action("cancel", ("c",), "cancel", "Cancel; asks first if something runs", footer=4),
    Action("kill", ("K",), "kill", "Kill at once, with everything it started; asks"),
    Action("hold", ("H",), "hold", "Hold or release: what runs goes on, no other attempt starts", footer=5),
    Action("raise_priority", ("plus", "equals_sign"), "sooner", "One more of priority"),
    Action("lower_priority", ("minus",), "later", "One less of priority"),
    Action("mark", ("space",), "mark", "Mark the task, or take the mark away", footer=6),
    Action("mark_all", ("A",), "mark all", "Mark all that are shown"),
    Action("clear", ("escape",), "clear", "Marks away, then the filter"),
    Action("filter", ("slash",), "filter", "Filter: words, state:failed, tag:x, gpu:2, node:a, name=value", footer=8),
    Action("sort", ("s",), "sort", "Sort by the next column; again on the last one: file order"),
    Action("reverse_sort", ("S",), "reverse", "Sort the other way round"),
    Action("curves", ("C",), "compare", "Compare curves: of the marked tasks, else of those of its entry"),
    Action("copy_command", ("y",), "copy command", "Copy the command, to the clipboard"),
    Action("copy_table", ("Y",), "copy table", "Copy the table as it is shown, tab-separated"),
    Action("pager", ("v",), "$PAGER", "Open the log in $PAGER"),
    # panes
    Action("zoom", ("z",), "zoom", "This pane alone, or all of them again", "panes"),
    Action("grow", ("greater_than_sign",), "larger", "More room for this pane", "panes"),
    Action("shrink", ("less_than_sign",), "smaller", "Less room for this pane", "panes"),
    Action("hide", ("Z",), "hide", "Hide this pane; in the table: show all of them again", "panes"),
    # GPUs
    Action("processes", ("enter",), "processes", "Who is on this GPU: pid, user, task, memory", "gpus", footer=1),
    Action("drain", ("D",), "drain", "Drain this GPU: start nothing more on it, or start again", "gpus", footer=2),
    Action("take", ("T",), "take", "Use this GPU, although others are on it; asks", "gpus", footer=3),
    Action("gpu_left", ("left", "h"), "left", "To the GPU on the left", "gpus"),
    Action("gpu_right", ("right",), "right", "To the GPU on the right", "gpus"),
    # logs
    Action("log_follow", ("f",), "follow", "Stay at the end, as it grows", "log", footer=1),
    Action("log_streams", ("o",), "streams", "stdout, stderr, both", "log", footer=2),
    Action("log_wrap", ("w",), "wrap", "Wrap long lines", "log", footer=3),
    Action("log_search", ("slash",), "search", "Search in the whole file", "log", footer=4),
    Action("log_next", ("n",), "next", "To the next hit", "log"),
    Action("log_previous", ("N",), "previous", "To the hit before", "log"),
    Action("log_error", ("x",), "first error", "To the first error", "log", footer=5),
    Action("log_attempt_back", ("left_square_bracket",), "attempt back", "The attempt before", "log", footer=6),
    Action("log_attempt_on", ("right_square_bracket",), "attempt on", "The attempt after", "log"),
    Action("log_left", ("left",), "left", "Back to the beginning of long lines", "log"),
    Action("log_right", ("right",), "right", "On in lines that are too long", "log"),
    Action("log_rank", ("p",), "rank", "The next rank, where torchrun or accelerate starts several", "log"),
    Action("log_page_down", ("space", "pagedown"), "page down", "A page on in the log", "log"),
    Action("log_page_up", ("b", "pageup"), "page up", "A page back in the log", "log"),
    # pages
    Action("back", ("escape",), "back", "Back to the deck", "page", footer=80),
    Action("page_down_line", ("j", "down"), "down", "To the next line of the page", "page"),
    Action("page_up_line", ("k", "up"), "up", "To the line before on the page", "page"),
    Action(
        "page_open",
        ("enter",),
        "open",
        "What is under the cursor: a task, the tasks of an entry, the log of a failure",
        "page",
        footer=1,
    ),
    Action("detail_next", ("n",), "next task", "The next task, in the table's order", "detail", footer=4),
    Action("detail_previous", ("p",), "task before", "The task before, in the table's order", "detail", footer=5),
    Action(
        "detail_attempt_back",
        ("left_square_bracket",),
        "attempts",
        "The attempt before it, and what it left behind",
        "detail",
        footer=6,
    ),
    Action(
        "detail_attempt_on",
        ("right_square_bracket",),
        "attempt on",
        "The attempt after it, and what it left behind",
        "detail",
    ),
    Action("timeline_before", ("left",), "before", "The attempt before, on the same GPU", "timeline"),
    Action("timeline_behind", ("right",), "behind", "The attempt after it, on the same GPU", "timeline"),
    Action("timeline_closer", ("plus", "equals_sign"), "closer", "Less time, in more detail", "timeline", footer=2),
    Action("timeline_wider", ("minus",), "wider", "More time", "timeline", footer=3),
    Action(
        "timeline_back",
        ("shift+left", "h"),
        "back in time",
        "Back in time, by a quarter of the width",
        "timeline",
        footer=4,
    ),
    Action("timeline_on", ("shift+right", "l"), "on", "On in time, by a quarter of the width", "timeline", footer=5),
    Action("timeline_now", ("f", "end"), "now", "To the present, and stay there", "timeline", footer=6),
    Action("timeline_all", ("0", "home"), "all", "Everything from the first start on", "timeline", footer=7),
    Action("curves_metric", ("m",), "metric", "The next metric", "curves", footer=2),
    Action("curves_axis", ("x",), "axis", "Over steps, epochs or time", "curves", footer=3),
    Action("curves_groups", ("g",), "seeds", "Mean and deviation over seeds, or every task", "curves", footer=4),
    Action("curves_baseline", ("b",), "baseline", "Differences to this curve; again: to none", "curves", footer=5),
    Action("curves_smooth", ("s",), "smooth", "Smooth more, or not at all", "curves", footer=6),
    Action("curves_log", ("y",), "log scale", "Logarithms of the values, or the values", "curves", footer=7),
    Action("curves_left", ("left",), "left", "To smaller steps: the values there", "curves"),
    Action("curves_right", ("right",), "right", "To larger steps: the values there", "curves"),
    Action("graph_left", ("left", "h"), "left", "To the round before", "graph"),
    Action("graph_right", ("right", "l"), "right", "To the round behind", "graph"),
    Action(
        "errors_retry",
        ("r",),
        "retry all",
        "Run all tasks that failed like this once more",
        "errors",
        footer=2,
    ),
    Action("errors_log", ("x", "l"), "first error", "The log at its first error", "errors", footer=3),
    Action(
        "errors_task", ("d",), "details", "Everything about the newest task that failed like this", "errors", footer=4
    ),
    Action(
        "errors_filter", ("slash",), "in the table", "The tasks that failed like this, in the table", "errors", footer=5
    ),
)

BY_ID = {action.id: action for action in ACTIONS}


def use_keys(keys: Mapping[str, str]) -> None:
    """From now on BY_ID has the user's keys: *keys* by id, several separated by commas, the others as they are here."""
    for action in ACTIONS:
        chosen = keys.get(action.id)
        BY_ID[action.id] = action if chosen is None else replace(action, keys=tuple(chosen.split(",")))


def on(*places: Where) -> list[Action]:
    """The actions of these places, in the table's order."""
    return [action for action in ACTIONS if action.where in places]


def footer_of(actions: Iterable[Action]) -> list[Action]:
    """Those that a footer shows, in its order."""
    return sorted((action for action in actions if action.footer), key=lambda action: action.footer)


def bindings(*places: Where) -> list[Binding]:
    """For a widget or screen with a method `action_act(action_id)`. Keys can be changed by the id of the action."""
    return [_binding(action) for action in on(*places)]


def bindings_of(*action_ids: str) -> list[Binding]:
    """Those of a few actions."""
    return [_binding(BY_ID[action_id]) for action_id in action_ids]


def _binding(action: Action) -> Binding:
    return Binding(
        ",".join(action.keys), f"act('{action.id}')", action.label, show=False, tooltip=action.tip, id=action.id
    )
