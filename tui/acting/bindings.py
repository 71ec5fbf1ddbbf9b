"""The table of actions as Textual's bindings."""

from __future__ import annotations

from textual.binding import Binding

from .actions import BY_ID, Action, Where, on


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
