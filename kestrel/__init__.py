"""Kestrel: a text-to-speech server on its own native engine."""

__version__ = "0.1.0"
