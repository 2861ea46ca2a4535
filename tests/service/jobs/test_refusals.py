"""What /v1/jobs refuses, and a server without a folder for jobs."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from tests.service.fake_engine import FakeEngine
from tests.service.jobs.serving import serving, speaking


@pytest.mark.parametrize(
    ("fields", "code", "param"),
    [
        ({"text": ""}, "invalid_value", "text"),
        ({"text": "..."}, "invalid_text", "text"),
        ({"text": "Well then. This is unspeakable."}, "invalid_text", "text"),
        ({"text": "x" * 101}, "text_too_long", "text"),
        ({"text": "Well.", "stream": True}, "invalid_value", "stream"),
        ({"text": "Well.", "timings": True}, "invalid_value", "timings"),
        ({"text": "Well.", "deadline_seconds": 2.0}, "invalid_value", "deadline_seconds"),
        ({"text": "Well.", "speed": 2}, "invalid_value", "speed"),
        ({"text": "Well.", "format": "midi"}, "invalid_value", "format"),
        ({"text": "Well.", "retention_seconds": 0}, "invalid_value", "retention_seconds"),
        ({"text": "Well.", "retention_seconds": 1e12}, "retention_too_long", "retention_seconds"),
        ({"text": "Well.", "max_seconds": 1e12}, "max_seconds_too_large", "max_seconds"),
        ({"text": "Well.", "voice": "alto"}, "unknown_voice", "voice"),
        ({"text": "Well.", "speedo": 1}, "unknown_field", None),
        ({}, "missing_field", "text"),
    ],
)
def test_bad_jobs(tmp_path: Path, fields: dict[str, object], code: str, param: str | None) -> None:
    """Each is refused before anything is stored, and says which field is at fault."""
    with serving(FakeEngine(speaking), tmp_path, jobs_max_text_chars=100, max_text_chars=10) as client:
        reply = httpx.post(f"{client.url}/v1/jobs", json=fields)
        assert reply.status_code == 400
        error = reply.json()["error"]
        assert (error["code"], error["param"]) == (code, "speedo" if code == "unknown_field" else param)
        assert client.get("/v1/jobs").json()["data"] == []
        client.until(client.submit("Longer than a request. " * 4), "completed")


def test_bodies_and_parameters_that_are_none(tmp_path: Path) -> None:
    """Catches a 500 for what the framework would not have let through."""
    with serving(FakeEngine(speaking), tmp_path, jobs_max_body_bytes=2048) as client:
        post = {"headers": {"Content-Type": "application/json"}}
        for body, status, code in [
            (b"", 400, "invalid_json"), (b"{", 400, "invalid_json"), (b"[]", 400, "invalid_value"),
            (b"\xff\xfe", 400, "invalid_json"), (b'{"text": "\\ud800"}', 400, "invalid_json"),
            (b"[" * 2000, 400, "invalid_json"), (b'{"text": "a\\u0000"}', 400, "invalid_value"),
            (b" " * 3000, 413, "body_too_large"),
        ]:  # fmt: skip
            reply = httpx.post(f"{client.url}/v1/jobs", content=body, **post)  # type: ignore[arg-type]
            assert (reply.status_code, reply.json()["error"]["code"]) == (status, code), body[:20]
        assert httpx.post(f"{client.url}/v1/jobs", content=b"text=Well").status_code == 415
        for query in ("limit=0", "limit=101", "limit=x", "cursor=-1", "cursor=x", "cursor=" + "9" * 19, "status=lost"):
            reply = client.get(f"/v1/jobs?{query}")
            assert (reply.status_code, reply.json()["error"]["param"]) == (400, query.partition("=")[0])
        for job in ("job_" + "0" * 32, "..", "%2e%2e%2flock", "job_*", "job_" + "0" * 32 + "%0a", "x" * 5000):
            for path in ("", "/audio", "/events"):
                assert client.get(f"/v1/jobs/{job}{path}").status_code == 404


def test_without_a_folder_of_its_own_a_server_speaks_but_has_no_jobs(tmp_path: Path) -> None:
    """Two servers of one user without any setting: the second must not be unusable, and must say what it lacks."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path))
        with (
            serving(FakeEngine(speaking), tmp_path, jobs_folder="") as client,
            serving(FakeEngine(speaking), tmp_path, jobs_folder="") as second,
        ):
            client.until(client.submit(), "completed")
            assert httpx.post(f"{second.url}/v1/tts", json={"text": "Hello."}).status_code == 200
            for reply in (second.post(), second.get("/v1/jobs"), second.get(f"/v1/jobs/job_{'0' * 32}")):
                assert reply.status_code == 503
                assert reply.json()["error"]["code"] == "jobs_unavailable"
                assert "set KESTREL_JOBS_FOLDER" in reply.json()["error"]["message"]
    assert (tmp_path / "kestrel" / "jobs" / "jobs.sqlite3").exists()
