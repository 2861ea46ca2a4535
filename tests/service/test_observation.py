"""What an operator sees of a real server: metrics, log lines, memory."""

from __future__ import annotations

import httpx
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families

from kestrel.service.metrics import PHASES
from tests.service.server_process import Server
from tests.service.test_server import LONG, TIMEOUT, speak


def test_metrics_parse_and_phases_explain_the_engine_time(server: Server) -> None:
    """Catches a phase that is not measured or counted twice.

    For requests spoken alone, the phases other than send_wait, which goes on beside the engine, must explain at least
    95 % of the time from submission to result, and not exceed it by more than the service's own planning and encoding.
    """
    before = {phase: server.metric("tts_phase_duration_seconds_sum", phase=phase) for phase in PHASES}
    wall_before = server.metric("tts_engine_duration_seconds_sum")
    for seed in range(4):
        assert speak(server, LONG, seed=seed, stream=bool(seed % 2)).status_code == 200
    reply = httpx.get(f"{server.url}/metrics")
    assert reply.headers["content-type"].startswith("text/plain")
    families = {family.name: family for family in text_string_to_metric_families(reply.text)}
    buckets = {
        float(sample.labels["le"])
        for sample in families["tts_real_time_factor"].samples
        if sample.name.endswith("_bucket")
    }
    assert 1.0 in buckets
    assert {sample.labels["phase"] for sample in families["tts_phase_duration_seconds"].samples} == set(PHASES)
    phases = {
        phase: server.metric("tts_phase_duration_seconds_sum", phase=phase) - before[phase]
        for phase in PHASES
        if phase != "send_wait"
    }
    wall = server.metric("tts_engine_duration_seconds_sum") - wall_before
    assert 0.95 * wall <= sum(phases.values()) <= 1.05 * wall, (wall, phases)


def test_openmetrics_is_served_to_those_who_ask(server: Server) -> None:
    """Catches a content type that does not fit the body."""
    accept = {"Accept": "application/openmetrics-text; version=1.0.0"}
    reply = httpx.get(f"{server.url}/metrics", headers=accept)
    assert reply.headers["content-type"].startswith("application/openmetrics-text")
    assert reply.text.endswith("# EOF\n")
    assert list(parse_openmetrics(reply.text))  # type: ignore[no-untyped-call]


def test_log_lines_have_phases_and_never_the_text(server: Server) -> None:
    """A log with user texts is a leak; a log without phases cannot explain a slow request."""
    reply = httpx.post(
        f"{server.url}/v1/tts",
        json={"text": "Xylophone secrets."},
        headers={"X-Request-Id": "my.id-1"},
        timeout=TIMEOUT,
    )
    assert reply.headers["x-request-id"] == "my.id-1"
    line = server.logged("my.id-1")
    assert set(PHASES) <= set(line["phases"])
    assert line["characters"] == 18
    assert (
        httpx.get(f"{server.url}/livez", headers={"X-Request-Id": "a b<script>"}).headers["x-request-id"]
        != "a b<script>"
    )
    assert "ylophone" not in str(server.log())
    assert "ylophone" not in server.messages


def test_a_hundred_identical_requests(terse: Server) -> None:
    """Catches state carried from one request to the next, and memory that grows with requests."""
    replies = set()
    memory = 0.0
    for count in range(1, 101):
        replies.add(speak(terse, "Once more.").content)
        if count == 10:
            memory = terse.metric("process_resident_memory_bytes")
    assert len(replies) == 1
    assert terse.metric("process_resident_memory_bytes") <= memory * 1.02
