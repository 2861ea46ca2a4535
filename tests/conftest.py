"""For all tests."""

from __future__ import annotations

from hypothesis import settings

# No example has a time limit: on a busy machine any of them can take long.
settings.register_profile("kestrel", deadline=None)
settings.load_profile("kestrel")
