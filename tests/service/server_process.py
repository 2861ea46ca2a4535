"""A real server in its own process on a free port, and what tests ask of it."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
from prometheus_client.parser import text_string_to_metric_families

PATIENCE = 120.0
"""Seconds after which a wait counts as a hang. Nothing is measured against it."""


def wait_for(condition: Callable[[], bool], what: str) -> None:
    """Polls until `condition` holds."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, f"still waiting: {what}"
        time.sleep(0.01)


class Server:
    """`python -m kestrel serve` with settings from the environment. `url` is known once it listens."""

    def __init__(self, folder: Path, **settings: object) -> None:
        environment = {name: value for name, value in os.environ.items() if not name.startswith("KESTREL_")}
        if "KESTREL_LIBRARY" in os.environ:
            environment["KESTREL_LIBRARY"] = os.environ["KESTREL_LIBRARY"]
        self.jobs_folder = folder / "jobs"
        environment["KESTREL_JOBS_FOLDER"] = str(self.jobs_folder)
        environment |= {f"KESTREL_{name.upper()}": str(value) for name, value in settings.items()}
        self._log = folder / "server.log"
        self._messages = folder / "server.err"
        with self._log.open("wb") as log, self._messages.open("wb") as messages:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "kestrel", "serve", "--port", "0", "--threads", "1"],
                env=environment, stdout=log, stderr=messages,
            )  # fmt: skip
        self.url = self._printed(r"Listening on (http://\S+?),")

    def _printed(self, pattern: str) -> str:
        wait_for(lambda: bool(re.search(pattern, self.messages)) or self.process.poll() is not None, pattern)
        match = re.search(pattern, self.messages)
        assert match, f"exit code {self.process.poll()}: {self.messages}"
        return match.group(1)

    @property
    def messages(self) -> str:
        return self._messages.read_text()

    def until_ready(self) -> Server:
        assert self._printed(r"Ready: (http://\S+)") == self.url
        return self

    def log(self) -> list[dict[str, Any]]:
        """Every log line; a line that is not JSON fails here."""
        return [json.loads(line) for line in self._log.read_text().splitlines()]

    def logged(self, request_id: str) -> dict[str, Any]:
        """The log line of a request, once it is there."""
        lines: list[dict[str, Any]] = []

        def found() -> bool:
            lines[:] = [line for line in self.log() if line.get("request_id") == request_id]
            return bool(lines)

        wait_for(found, f"log line of {request_id}")
        assert len(lines) == 1
        return lines[0]

    def readiness(self) -> dict[str, Any]:
        body: dict[str, Any] = httpx.get(f"{self.url}/readyz").json()
        return body

    def metric(self, name: str, **labels: str) -> float:
        """Sum of the samples called `name` with the given labels."""
        text = httpx.get(f"{self.url}/metrics").text
        return sum(
            sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
            if sample.name == name and labels.items() <= sample.labels.items()
        )

    def stop(self) -> int:
        """Asks it to end and returns its exit code."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(PATIENCE)
        finally:
            self.process.kill()
