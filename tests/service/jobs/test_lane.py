"""Jobs beside requests on an engine that does what the test says: order, cancellation, failures, limits."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import numpy as np
import pytest

from kestrel.engine import ClosedError, EngineError
from tests.service.fake_engine import RATE, FakeEngine, FakeStream
from tests.service.jobs.serving import THREE, audio_files, serving, speaking
from tests.service.server_process import PATIENCE, wait_for


@pytest.mark.parametrize("queue_size", [0, 2])
def test_a_request_goes_before_the_next_sentence_of_a_job(tmp_path: Path, queue_size: int) -> None:
    """Catches a job that holds the slot to its end, that overtakes a waiting request, or for whose sake a request is
    refused although only a job is running; and one that does not go on afterwards."""
    fake = FakeEngine()
    with serving(fake, tmp_path, queue_size=queue_size) as client, ThreadPoolExecutor() as pool:
        job = client.submit()
        wait_for(lambda: len(fake.streams) == 1, "the job's first sentence")
        request = pool.submit(httpx.post, f"{client.url}/v1/tts", json={"text": "A request."}, timeout=PATIENCE)
        wait_for(lambda: client.readiness()["waiting"] == 1, "the request waits for the sentence")
        assert client.readiness()["running"] == 1
        speaking(fake.streams[0])
        wait_for(lambda: len(fake.streams) == 2, "the next utterance")
        assert fake.streams[1].utterance.text == "A request."
        wait_for(lambda: client.job(job)["sentences_done"] == 1, "the job's sentence is stored meanwhile")
        assert len(fake.streams) == 2
        speaking(fake.streams[1])
        assert request.result().status_code == 200
        wait_for(lambda: len(fake.streams) == 3, "the job goes on")
        fake.on_submit = speaking
        speaking(fake.streams[2])
        client.until(job, "completed")
        assert [stream.utterance.text for stream in fake.streams] == [
            "One sentence.", "A request.", "Two sentence.", "Three of them.",
        ]  # fmt: skip
        pcm = np.frombuffer(client.get(f"/v1/jobs/{job}/audio?format=pcm").content, np.int16)
        assert pcm.reshape(3, -1)[:, 0].tolist() == [13, 13, 14]


def test_a_job_leaves_the_other_slots_alone(tmp_path: Path) -> None:
    """Catches a job that takes a slot for each sentence at once."""
    fake = FakeEngine()
    with serving(fake, tmp_path, slots=3) as client:
        first, second = client.submit(), client.submit()
        wait_for(lambda: len(fake.streams) == 1, "the first sentence")
        reply = threading.Thread(target=httpx.post, args=[f"{client.url}/v1/tts"], kwargs={"json": {"text": "A one."}})
        reply.start()
        wait_for(lambda: len(fake.streams) == 2, "the request starts beside it")
        assert client.readiness()["running"] == 2
        assert (client.job(first)["status"], client.job(second)["status"]) == ("running", "queued")
        fake.on_submit = speaking
        for stream in fake.streams[:2]:
            speaking(stream)
        reply.join()
        client.until(second, "completed")
        assert client.job(first)["finished_at"] <= client.job(second)["started_at"]


def test_deleting_a_running_job_frees_its_slot_and_its_files(tmp_path: Path) -> None:
    """Catches a sentence spoken on for nobody, a slot given away before the engine has left it, files left behind."""
    fake = FakeEngine()
    with serving(fake, tmp_path) as client, ThreadPoolExecutor() as pool:
        job = client.submit()
        wait_for(lambda: len(fake.streams) == 1, "the first sentence")
        speaking(fake.streams[0])
        wait_for(lambda: len(fake.streams) == 2, "the second sentence")
        assert audio_files(tmp_path) == [f"{job}.part"]
        deleting = pool.submit(httpx.delete, f"{client.url}/v1/jobs/{job}", timeout=PATIENCE)
        wait_for(fake.streams[1].cancelled.is_set, "the engine is told")
        assert client.readiness()["running"] == 1
        fake.streams[1].end("cancelled")
        assert deleting.result().status_code == 204
        assert client.readiness()["running"] == 0
        assert audio_files(tmp_path) == []
        for method, path in (("GET", ""), ("DELETE", ""), ("GET", "/audio"), ("GET", "/events")):
            reply = httpx.request(method, f"{client.url}/v1/jobs/{job}{path}")
            assert reply.status_code == 404
            assert reply.json()["error"]["code"] == "unknown_job"
        fake.on_submit = speaking
        client.until(client.submit(), "completed")
        metrics = client.get("/metrics").text
        assert 'tts_jobs_ended_total{outcome="deleted"} 1.0' in metrics
        assert 'tts_cancel_latency_seconds_count{cause="job"} 1.0' in metrics


def test_a_failed_job_says_why_and_the_next_one_runs(tmp_path: Path) -> None:
    """Catches a job that is `completed` with a part missing, one that hangs for ever, and a lane that dies of it."""
    fake = FakeEngine()

    def second_fails(stream: FakeStream) -> None:
        stream.sink(EngineError("out of memory")) if "Two" in stream.utterance.text else speaking(stream)

    fake.on_submit = second_fails
    with serving(fake, tmp_path, request_timeout=0.3) as client:
        job = client.submit(THREE)
        body = client.until(job, "failed")
        assert body["error"]["code"] == "engine_error"
        assert "out of memory" in body["error"]["message"]
        assert body["sentences_done"] == 1
        reply = client.get(f"/v1/jobs/{job}/audio")
        assert reply.status_code == 409
        assert "out of memory" in reply.json()["error"]["message"]
        fake.on_submit = lambda stream: stream.end()
        assert client.until(client.submit(), "failed")["error"]["code"] == "no_audio"
        fake.on_submit = None
        job = client.submit()
        wait_for(lambda: fake.streams[-1].cancelled.is_set(), "an engine that hangs is told to stop")
        fake.streams[-1].end("cancelled")
        assert client.until(job, "failed")["error"]["code"] == "deadline_exceeded"
        assert audio_files(tmp_path) == []
        fake.on_submit = speaking
        client.until(client.submit(), "completed")
        assert client.readiness()["running"] == 0
        assert 'tts_jobs_ended_total{outcome="failed"} 3.0' in client.get("/metrics").text


def test_an_engine_that_dies_leaves_the_job_to_the_next_server(tmp_path: Path) -> None:
    """Catches hours of work called failed because of a fault that a restart mends."""
    fake = FakeEngine()

    def dies(stream: FakeStream) -> None:
        if "Two" in stream.utterance.text:
            raise ClosedError("the engine has failed")
        speaking(stream)

    fake.on_submit = dies
    with serving(fake, tmp_path) as client:
        job = client.submit()
        wait_for(lambda: client.readiness()["status"] == "failed", "the server is not ready any more")
        assert client.job(job)["sentences_done"] == 1
    fake = FakeEngine(speaking)
    with serving(fake, tmp_path) as client:
        client.until(job, "completed")
        assert [stream.utterance.text for stream in fake.streams] == ["Two sentence.", "Three of them."]
        assert "tts_jobs_resumed_total 1.0" in client.get("/metrics").text


def test_another_model_does_not_go_on_with_a_job(tmp_path: Path) -> None:
    """Catches a voice that changes in the middle of a book."""
    fake = FakeEngine()
    with serving(fake, tmp_path) as client:
        job = client.submit()
        wait_for(lambda: len(fake.streams) == 1, "the first sentence")
        speaking(fake.streams[0])
        wait_for(lambda: len(fake.streams) == 2, "the second sentence")
        # The server now stops; it cancels the sentence, and the engine confirms.
        threading.Thread(target=lambda: fake.streams[1].cancelled.wait() and fake.streams[1].end("cancelled")).start()
    fake = FakeEngine(speaking)
    fake.info.version = "2"
    with serving(fake, tmp_path) as client:
        body = client.until(job, "failed")
        assert body["error"] == {"code": "model_changed", "message": "begun with model fake 1; this server has fake 2"}
        assert fake.streams == []


def test_the_queue_of_jobs_is_bounded(tmp_path: Path) -> None:
    """Catches unbounded text in the database, and a refusal that does not say when to come back."""
    fake = FakeEngine()
    with serving(fake, tmp_path, jobs_queue_size=2) as client:
        jobs = [client.submit(), client.submit()]
        wait_for(lambda: len(fake.streams) == 1, "the first sentence")
        refused = client.post()
        assert refused.status_code == 429
        assert refused.json()["error"]["code"] == "jobs_full"
        assert int(refused.headers["retry-after"]) >= 1
        httpx.delete(f"{client.url}/v1/jobs/{jobs[1]}")
        fake.on_submit = speaking
        jobs[1] = client.submit()
        speaking(fake.streams[0])
        for job in jobs:
            client.until(job, "completed")


def test_the_disk_limit(tmp_path: Path) -> None:
    """Catches audio beyond the limit, whether foreseen or not, and space that never comes back."""

    def at_length(stream: FakeStream) -> None:
        stream.speak(10.0)
        stream.end()

    with serving(FakeEngine(at_length), tmp_path, jobs_disk_bytes=20 * 2 * RATE) as client:
        too_large = client.post("One sentence more. " * 50)
        assert too_large.status_code == 400
        assert too_large.json()["error"]["code"] == "audio_too_large"
        job = client.submit()  # expected to give 3 s, gives 30
        body = client.until(job, "failed")
        assert body["error"]["code"] == "storage_full"
        assert "640000 bytes, the limit" in body["error"]["message"]
        assert audio_files(tmp_path) == []
        kept = client.submit("Once, in a while.")
        client.until(kept, "completed")
        refused = client.post("One sentence more. " * 10)
        assert refused.status_code == 429
        assert refused.json()["error"]["code"] == "storage_full"
        assert int(refused.headers["retry-after"]) >= 1
        httpx.delete(f"{client.url}/v1/jobs/{kept}")
        client.submit("One sentence more. " * 10)


def test_max_seconds_cuts_a_job_as_it_cuts_a_request(tmp_path: Path) -> None:
    """Catches a cut text reported as whole."""

    def obedient(stream: FakeStream) -> None:
        stream.speak(min(1.0, stream.utterance.max_seconds or 0))
        stream.end()

    fake = FakeEngine(obedient)
    with serving(fake, tmp_path) as client:
        body = client.until(client.submit(max_seconds=1.5), "completed")
        assert (body["audio_seconds"], body["sentences_done"], body["finish_reason"]) == (1.5, 2, "length")
        assert [stream.utterance.max_seconds for stream in fake.streams] == [1.5, 0.5]


def test_an_ended_job_expires(tmp_path: Path) -> None:
    """Catches a sweeper that never runs."""
    with serving(FakeEngine(speaking), tmp_path) as client:
        job = client.submit(retention_seconds=0.1)
        wait_for(lambda: client.get(f"/v1/jobs/{job}").status_code == 404, "it expires")
        assert audio_files(tmp_path) == []
        wait_for(lambda: 'tts_jobs_ended_total{outcome="expired"} 1.0' in client.get("/metrics").text, "it is counted")
