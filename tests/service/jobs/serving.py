"""A server with jobs in this process, on an engine that does what the test says, and a client of it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from tests.service.fake_engine import FakeEngine, FakeStream
from tests.service.server_process import wait_for
from tests.service.test_life import served

THREE = "One sentence. Two sentence. Three of them."


class Client:
    """What the tests ask of a server with jobs."""

    def __init__(self, url: str) -> None:
        self.url = url

    def post(self, text: str = THREE, **fields: Any) -> httpx.Response:
        return httpx.post(f"{self.url}/v1/jobs", json={"text": text, "seed": 7} | fields)

    def submit(self, text: str = THREE, **fields: Any) -> str:
        reply = self.post(text, **fields)
        assert reply.status_code == 202, reply.text
        job: str = reply.json()["id"]
        assert reply.headers["location"] == f"/v1/jobs/{job}"
        return job

    def get(self, path: str, **options: Any) -> httpx.Response:
        return httpx.get(f"{self.url}{path}", **options)

    def job(self, job: str) -> dict[str, Any]:
        body: dict[str, Any] = self.get(f"/v1/jobs/{job}").json()
        return body

    def until(self, job: str, status: str) -> dict[str, Any]:
        wait_for(lambda: self.job(job)["status"] == status, f"{job} is {status}")
        return self.job(job)

    def readiness(self) -> dict[str, Any]:
        body: dict[str, Any] = self.get("/readyz").json()
        return body


@contextmanager
def serving(fake: FakeEngine, folder: Path, **settings: object) -> Iterator[Client]:
    """One slot, unless told otherwise; sentences of 20 characters."""
    options: dict[str, object] = {"slots": 1, "piece_min_chars": 5, "jobs_folder": str(folder)} | settings
    with served(lambda _: fake.engine, **options) as url:
        wait_for(lambda: httpx.get(f"{url}/readyz").json()["status"] in ("ready", "failed"), "the start")
        yield Client(url)


def speaking(stream: FakeStream) -> None:
    """What a healthy engine does, at once; the samples tell the sentence."""
    stream.speak(0.5, len(stream.utterance.text))
    stream.end()


def audio_files(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "audio").iterdir())
