"""docs/websocket.md against the server: its example runs as it stands, its tables are complete."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from kestrel.service import live
from kestrel.service.live import protocol
from tests.service.server_process import Server

PAGE = (Path(__file__).parents[2] / "docs" / "websocket.md").read_text()
SOURCE = "".join(path.read_text() for path in Path(live.__file__).parent.glob("*.py"))


def test_the_example_runs(server: Server) -> None:
    """Catches an example that does not work, or hears nothing."""
    match = re.search(r"<!-- test: websocket -->\n```python\n(.*?)```", PAGE, re.DOTALL)
    assert match
    script = match.group(1).replace("127.0.0.1:8080", server.url.removeprefix("http://"))
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=120)
    lines = run.stdout.splitlines()
    assert lines[0] == "sample rate 16000"
    assert lines[1] == "speaking: The first sentence is spoken while the next one is still being written."
    assert "('sentence', " in lines[2]
    assert 3 < float(lines[-1].removeprefix("seconds ")) < 12


def test_every_event_message_field_and_code_is_described() -> None:
    """Catches a protocol that grows beside its page."""
    cells = set(re.findall(r"^\| `([\w.]+)` \|", PAGE, re.MULTILINE))
    events = set(re.findall(r'"type": "([\w.]+)"', SOURCE))
    assert events | set(protocol._TYPES) == cells - {"type"}
    told = set(re.findall(r"`(\w+)`", PAGE))
    assert set(protocol.ConfigMessage.model_fields) - {"type"} <= told
    assert set(re.findall(r'code="(\w+)"', SOURCE)) <= told
