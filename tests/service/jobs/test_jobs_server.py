"""Jobs on real servers with the default voice: killed, stopped, downloaded with curl, followed with httpx."""

from __future__ import annotations

import json
import random
import resource
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.service.server_process import PATIENCE, Server, wait_for
from tests.service.test_server import TIMEOUT, samples_of

NUMBERS = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth")
BOOK = " ".join(
    f"In the year of the {word} storm the {harbour} harbour lay quiet, and nobody knew why the boats stayed away."
    for harbour in ("old", "new", "small", "western")
    for word in NUMBERS
)
SHORT = "It was a quiet morning in the old harbour. Then the bell rang twice, and the crow flew home."


def submit(server: Server, text: str = SHORT, **fields: Any) -> str:
    reply = httpx.post(f"{server.url}/v1/jobs", json={"text": text, "seed": 7} | fields)
    assert reply.status_code == 202, reply.text
    job: str = reply.json()["id"]
    return job


def shown(server: Server, job: str) -> dict[str, Any]:
    body: dict[str, Any] = httpx.get(f"{server.url}/v1/jobs/{job}").json()
    return body


def until_sentence(server: Server, job: str, number: int) -> None:
    wait_for(lambda: shown(server, job)["sentences_done"] >= number, f"{number} sentences")


def completed(server: Server, job: str) -> dict[str, Any]:
    wait_for(lambda: shown(server, job)["status"] in ("completed", "failed"), f"the end of {job}")
    body = shown(server, job)
    assert body["status"] == "completed", body["error"]
    return body


def events(reply: httpx.Response) -> Iterator[tuple[str, int | None, dict[str, Any]]]:
    """Name, id and data of each server-sent event."""
    name, number = "", None
    for line in reply.iter_lines():
        field, _, value = line.partition(": ")
        if field == "event":
            name = value
        elif field == "id":
            number = int(value)
        elif field == "data":
            yield name, number, json.loads(value)
            name, number = "", None


def spoken(server: Server, text: str) -> bytes:
    """The reply of /v1/tts, with which a job must be equal to the last byte."""
    reply = httpx.post(f"{server.url}/v1/tts", json={"text": text, "seed": 7}, timeout=TIMEOUT)
    assert reply.status_code == 200
    return reply.content


@pytest.fixture(scope="module")
def finished(server: Server) -> tuple[str, bytes]:
    """A completed job and its audio."""
    job = submit(server)
    completed(server, job)
    return job, httpx.get(f"{server.url}/v1/jobs/{job}/audio").content


def test_a_job_has_the_bytes_of_a_request(server: Server, finished: tuple[str, bytes]) -> None:
    """Catches sentences seeded, cut or joined in another way than /v1/tts does, and a WAV header that lies."""
    job, audio = finished
    assert audio == spoken(server, SHORT)
    body = shown(server, job)
    assert body["sentences_done"] == body["sentences_total"] == 2
    assert body["audio_seconds"] == pytest.approx(len(samples_of(audio)) / 16000)
    assert (body["finish_reason"], body["seconds_left"], body["error"]) == ("eos", None, None)
    assert body["created_at"] <= body["started_at"] <= body["finished_at"] < body["expires_at"]
    assert server.metric("tts_job_sentences_total") >= 2


@pytest.mark.heavy
def test_pauses_and_figures_are_those_of_a_request(server: Server) -> None:
    """Catches pauses that a job drops or that shift the seeds of its sentences, and switches lost in the database."""
    text = f"[pause:300ms]It cost $3.50. [pause:1s] {SHORT} [pause:200ms]"
    job = submit(server, text)
    completed(server, job)
    assert httpx.get(f"{server.url}/v1/jobs/{job}/audio").content == spoken(server, text)
    plain = submit(server, "Say 12.", normalize={"numbers": False})
    completed(server, plain)
    expected = httpx.post(f"{server.url}/v1/tts", json={"text": "Say 12.", "seed": 7, "normalize": {"numbers": False}})
    assert httpx.get(f"{server.url}/v1/jobs/{plain}/audio").content == expected.content


def test_killed_ten_times_a_job_is_that_of_an_undisturbed_run(tmp_path: Path) -> None:
    """`kill -9` at random moments, followed by a restart each time: catches sentences lost, doubled or changed, jobs
    forgotten, and a folder that stays locked."""
    chance = random.Random(4)
    server = Server(tmp_path, slots=1).until_ready()
    job = submit(server, BOOK)
    done = hits = 0
    for _ in range(10):
        until_sentence(server, job, done + chance.randint(0, 2))
        threading.Event().wait(chance.random() * 0.2)
        body = shown(server, job)
        server.process.kill()
        server.process.wait()
        hits += body["status"] == "running"
        server = Server(tmp_path, slots=1).until_ready()
        after = shown(server, job)["sentences_done"]
        assert after >= body["sentences_done"]
        done = after
    assert hits >= 5, "the text is too short for this test"
    body = completed(server, job)
    audio = httpx.get(f"{server.url}/v1/jobs/{job}/audio").content
    assert audio == spoken(server, BOOK)
    assert body["sentences_done"] == body["sentences_total"]
    assert [file.name for file in (tmp_path / "jobs" / "audio").iterdir()] == [f"{job}.pcm"]
    assert server.readiness()["running"] == 0
    assert server.stop() == 0


def test_sigterm_ends_in_time_and_the_job_goes_on(tmp_path: Path) -> None:
    """Catches a shutdown that waits for a book, or that loses it."""
    server = Server(tmp_path, slots=1).until_ready()
    job = submit(server, BOOK)
    with httpx.stream("GET", f"{server.url}/v1/jobs/{job}/events", timeout=TIMEOUT) as reply:
        stream = events(reply)
        while next(stream)[0] != "sentence":
            pass
        assert server.stop() == 0
        rest = list(stream)  # ends without an error: the client comes back with the last id
    last = max([number for _, number, _ in rest if number is not None], default=1)
    assert rest[-1][2]["status"] != "completed", "the text is too short for this test"
    server = Server(tmp_path, slots=1).until_ready()
    with httpx.stream("GET", f"{server.url}/v1/jobs/{job}/events", timeout=TIMEOUT,
                      headers={"Last-Event-ID": str(last)}) as reply:  # fmt: skip
        ids = [number for _, number, _ in events(reply) if number is not None]
    assert ids == list(range(last + 1, shown(server, job)["sentences_total"] + 2))
    assert httpx.get(f"{server.url}/v1/jobs/{job}/audio").content == spoken(server, BOOK)
    assert server.stop() == 0


def test_events_can_be_resumed_anywhere(server: Server, finished: tuple[str, bytes]) -> None:
    """Catches events lost or told twice after a broken connection, and a browser that reconnects for ever."""
    job, _ = finished
    url = f"{server.url}/v1/jobs/{job}/events"
    with httpx.stream("GET", url) as reply:
        assert reply.headers["content-type"].startswith("text/event-stream")
        told = list(events(reply))
    assert [(name, number) for name, number, _ in told] == [("sentence", 1), ("sentence", 2), ("status", 3)]
    assert told[1][2]["ends_at_seconds"] == pytest.approx(told[2][2]["audio_seconds"])
    assert told[2][2]["status"] == "completed"
    for last in ("0", "1", "2", "nonsense", "-1", "9" * 50):
        with httpx.stream("GET", url, headers={"Last-Event-ID": last}) as reply:
            assert list(events(reply)) == told[int(last) if last in "012" else 0 :]
    assert httpx.get(url, headers={"Last-Event-ID": "3"}).status_code == 204


def test_a_client_that_follows_learns_of_the_deletion(server: Server) -> None:
    """Catches a stream that stays open for a job that is no more."""
    job = submit(server, BOOK)
    with httpx.stream("GET", f"{server.url}/v1/jobs/{job}/events", timeout=TIMEOUT) as reply:
        stream = events(reply)
        assert next(stream)[2]["status"] in ("queued", "running")
        assert httpx.delete(f"{server.url}/v1/jobs/{job}").status_code == 204
        name, _, data = list(stream)[-1]
    assert (name, data["error"]["code"]) == ("error", "unknown_job")


def test_curl_goes_on_with_a_broken_download(server: Server, finished: tuple[str, bytes], tmp_path: Path) -> None:
    """`curl -C -` from several places: catches ranges off by one around the header, and a 416 that curl cannot read."""
    job, audio = finished
    for size in (0, 1, 43, 44, 45, 1000, len(audio) - 1, len(audio)):
        part = tmp_path / f"{size}.wav"
        part.write_bytes(audio[:size])
        # With all of it at hand the answer is a 416, which curl takes as done, unless told to fail.
        strict = ["--fail"] if size < len(audio) else []
        subprocess.run(
            ["curl", "-sS", *strict, "-C", "-", f"{server.url}/v1/jobs/{job}/audio", "-o", str(part)],
            check=True, timeout=PATIENCE,
        )  # fmt: skip
        assert part.read_bytes() == audio


def test_ranges_validators_and_formats(server: Server, finished: tuple[str, bytes]) -> None:
    """Catches a part of one format glued to another, false lengths, and a range honoured against If-Range."""
    job, audio = finished
    url = f"{server.url}/v1/jobs/{job}/audio"
    whole = httpx.get(url)
    assert (whole.headers["content-type"], whole.headers["accept-ranges"]) == ("audio/wav", "bytes")
    etag, modified = whole.headers["etag"], whole.headers["last-modified"]
    pcm = httpx.get(url, params={"format": "pcm"})
    assert pcm.content == audio[44:]
    assert pcm.headers["content-type"] == "audio/pcm;rate=16000;channels=1;bits=16"
    assert pcm.headers["etag"] != etag
    part = httpx.get(url, headers={"Range": "bytes=40-49"})
    assert (part.status_code, part.content) == (206, audio[40:50])
    assert (part.headers["content-range"], part.headers["content-length"]) == (f"bytes 40-49/{len(audio)}", "10")
    for validator, status in ((etag, 206), (modified, 206), (pcm.headers["etag"], 200), ('"old"', 200)):
        reply = httpx.get(url, headers={"Range": "bytes=-100", "If-Range": validator})
        assert (reply.status_code, reply.content) == (status, audio[-100:] if status == 206 else audio)
    behind = httpx.get(url, headers={"Range": f"bytes={len(audio)}-"})
    assert (behind.status_code, behind.headers["content-range"]) == (416, f"bytes */{len(audio)}")
    assert behind.json()["error"]["code"] == "range_not_satisfiable"
    assert httpx.get(url, headers={"If-None-Match": etag}).status_code == 304
    head = httpx.head(url)
    assert (head.status_code, head.headers["content-length"], head.content) == (200, str(len(audio)), b"")
    wrong = httpx.get(url, params={"format": "midi"})
    assert (wrong.status_code, wrong.json()["error"]["param"]) == (400, "format")


def test_pages(server: Server) -> None:
    """Catches jobs that no page shows, or two."""
    jobs = [submit(server, "Well, here we are.") for _ in range(5)]
    for job in jobs:
        completed(server, job)
    seen: list[str] = []
    cursor: dict[str, str] = {}
    while True:
        page = httpx.get(f"{server.url}/v1/jobs", params={"limit": "2", "status": "completed"} | cursor).json()
        assert 0 < len(page["data"]) <= 2
        seen += [job["id"] for job in page["data"]]
        if page["next_cursor"] is None:
            break
        cursor = {"cursor": page["next_cursor"]}
    assert seen[:5] == jobs[::-1]
    assert len(seen) == len(set(seen))


def test_a_disk_that_is_full_fails_the_job_and_nothing_else(tmp_path: Path) -> None:
    """The system refuses to let a file grow: catches a crash, a slot or a half file left behind, and a cut file that
    counts as complete."""
    server = Server(tmp_path, slots=1).until_ready()
    resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (600_000, 600_000))
    job = submit(server, BOOK)
    wait_for(lambda: shown(server, job)["status"] == "failed", "the job fails")
    body = shown(server, job)
    assert body["error"]["code"] == "storage_failed"
    assert "cannot be written" in body["error"]["message"]
    assert body["sentences_done"] > 0
    assert list((tmp_path / "jobs" / "audio").iterdir()) == []
    assert server.readiness()["running"] == 0
    completed(server, submit(server))
    assert samples_of(spoken(server, SHORT)).size
    assert server.stop() == 0


def test_a_folder_that_cannot_be_used_is_one_line_at_start(tmp_path: Path, server: Server) -> None:
    """Catches two servers in one folder, and a first job that fails for what could be told at start."""
    taken = server.jobs_folder
    (tmp_path / "file").write_text("")
    for folder, told in [
        (taken, f"another server (process {server.process.pid}) stores its jobs in {taken}"),
        (tmp_path / "file" / "jobs", "Not a directory; make it writable or set KESTREL_JOBS_FOLDER"),
    ]:
        second = Server(tmp_path, jobs_folder=folder)
        assert second.process.wait(PATIENCE) == 1
        assert told in second.messages.splitlines()[-1]
        assert second.messages.splitlines()[-1].startswith("error: ")
        assert "Traceback" not in second.messages


def test_the_text_of_a_job_is_not_in_the_log(server: Server) -> None:
    """A log is read by more people than the jobs are."""
    job = submit(server, "The password is swordfish.")
    completed(server, job)
    wait_for(lambda: any(line.get("job") == job for line in server.log()), "the job's line")
    assert "swordfish" not in json.dumps(server.log())


def test_examples_of_the_page(server: Server, tmp_path: Path) -> None:
    """Documentation that does not work as it stands."""
    page = (Path(__file__).parents[3] / "docs" / "jobs.md").read_text()
    blocks = page.split("<!-- test: ")[1:]
    script = "\n".join(block.partition("```sh\n")[2].partition("```")[0] for block in blocks)
    script = script.replace("http://127.0.0.1:8080", server.url)
    assert [block.partition(" ")[0] for block in blocks] == ["submit", "follow", "show", "download", "list", "delete"]
    done = subprocess.run(
        ["bash", "-euc", script], cwd=tmp_path, capture_output=True, text=True, check=True, timeout=PATIENCE
    )
    assert done.stdout.count("event: sentence") == 2
    assert '"status":"completed"' in done.stdout.replace(" ", "")
    assert len(samples_of((tmp_path / "morning.wav").read_bytes())) > 16000
    assert (tmp_path / "first-second.pcm").stat().st_size == 32000
    job = json.loads((tmp_path / "job.json").read_text())["id"]
    assert httpx.get(f"{server.url}/v1/jobs/{job}").status_code == 404
