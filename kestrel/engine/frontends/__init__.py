"""Front ends: text to the ids a model reads. `make_frontend` picks the one the model file names."""

from kestrel.engine.frontends.prompt import FrontEnd, Prompt, Word
from kestrel.engine.frontends.registry import make_frontend

__all__ = ["FrontEnd", "Prompt", "Word", "make_frontend"]
