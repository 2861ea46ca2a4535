"""What can be wrong with a text before any engine has seen it."""

from __future__ import annotations


class PlanError(ValueError):
    """The text cannot be spoken as it is; the message says why and what is valid."""
