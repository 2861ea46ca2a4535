"""Start, failure to start, and shutdown of the server process; and what it answers meanwhile."""

from __future__ import annotations

import io
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
import soundfile
import uvicorn

from kestrel.engine import ClosedError, Engine, EngineError, ModelFileError
from kestrel.service.app import create_app
from kestrel.service.settings import Settings, settings_page, unknown_variables
from tests.service.fake_engine import FakeEngine, FakeStream
from tests.service.server_process import Server, wait_for
from tests.service.test_server import ENDLESS, TIMEOUT

BODY = {"text": "Hello there."}


@contextmanager
def served(factory: object, **settings: object) -> Iterator[str]:
    """The application on a real port of this process, with an engine of the test's choice. Yields its URL."""
    app = create_app(Settings(**settings), engine_factory=factory)  # type: ignore[arg-type]
    bound = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, log_config=None, access_log=False, ws="websockets-sansio"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]})
    thread.start()
    try:
        wait_for(lambda: server.started, "the server listens")
        yield f"http://127.0.0.1:{bound.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()


def listen(chunks: Iterator[bytes]) -> None:
    """Takes its time, as a listener does, so that the stream cannot be over before a short grace period is."""
    for _ in chunks:
        time.sleep(0.01)


def speaking(stream: FakeStream) -> None:
    """What a healthy engine does, at once."""
    stream.speak(1.0)
    stream.end()


def test_before_it_is_loaded_it_says_so() -> None:
    """Catches a port that is closed or silent during a long load, and speech before readiness."""
    loaded = threading.Event()

    def slow(settings: Settings) -> Engine:
        loaded.wait()
        return FakeEngine(speaking).engine

    with served(slow) as url:
        try:
            assert httpx.get(f"{url}/livez").status_code == 200
            ready = httpx.get(f"{url}/readyz")
            assert ready.status_code == 503
            assert ready.json()["status"] == "loading"
            assert ready.json()["elapsed_seconds"] >= 0
            for reply in (httpx.post(f"{url}/v1/tts", json=BODY), httpx.get(f"{url}/v1/voices")):
                assert reply.status_code == 503
                assert int(reply.headers["retry-after"]) >= 1
                assert reply.json()["error"]["code"] == "loading"
        finally:
            loaded.set()
        wait_for(lambda: httpx.get(f"{url}/readyz").status_code == 200, "readiness after loading")
        assert httpx.post(f"{url}/v1/tts", json=BODY).status_code == 200


def test_a_model_that_cannot_be_loaded_is_told_to_clients() -> None:
    """A supervisor that keeps the port open must learn why it is not ready."""

    def broken(settings: Settings) -> Engine:
        raise ModelFileError("model.gguf: tensor slow.norm.weight is missing")

    with served(broken) as url:
        wait_for(lambda: httpx.get(f"{url}/readyz").json()["status"] == "failed", "the failure")
        reply = httpx.post(f"{url}/v1/tts", json=BODY)
        assert reply.status_code == 503
        assert "slow.norm.weight" in reply.json()["error"]["message"]


@pytest.mark.parametrize("stream", [True, False])
def test_failures_before_the_first_audio_have_a_status(stream: bool) -> None:
    """Catches the empty 200: a status line sent before there is anything to send."""

    def fail(stream: FakeStream) -> None:
        stream.sink(EngineError("out of memory"))

    def silent(stream: FakeStream) -> None:
        stream.end()

    fake = FakeEngine()
    with served(lambda settings: fake.engine) as url:
        wait_for(lambda: httpx.get(f"{url}/readyz").status_code == 200, "readiness")
        for then, code in ((fail, "engine_error"), (silent, "no_audio")):
            fake.on_submit = then
            reply = httpx.post(f"{url}/v1/tts", json=BODY | {"stream": stream})
            assert reply.status_code == 500
            assert reply.json()["error"]["code"] == code


def test_a_failure_after_the_first_audio_breaks_the_transfer() -> None:
    """Catches a cut reply that looks complete: the client must see a transfer without its end."""
    fake = FakeEngine(speaking)

    def break_off(stream: FakeStream) -> None:
        stream.speak(1.0)
        stream.sink(EngineError("lost"))

    with served(lambda settings: fake.engine) as url:
        wait_for(lambda: httpx.get(f"{url}/readyz").status_code == 200, "readiness")
        fake.on_submit = break_off
        with httpx.stream("POST", f"{url}/v1/tts", json=BODY | {"stream": True}) as reply:
            assert reply.status_code == 200
            with pytest.raises(httpx.RemoteProtocolError):
                reply.read()
        done = subprocess.run(
            ["curl", "-sS", "-o", "/dev/null", "-H", "Content-Type: application/json",
             "-d", '{"text": "Hello there.", "stream": true}', f"{url}/v1/tts"],
            check=False, capture_output=True,
        )  # fmt: skip
        assert done.returncode == 18, done.stderr  # CURLE_PARTIAL_FILE
        fake.on_submit = speaking
        assert httpx.post(f"{url}/v1/tts", json=BODY).status_code == 200
        assert 'tts_requests_total{endpoint="/v1/tts",outcome="engine_error"} 2.0' in httpx.get(f"{url}/metrics").text


def test_an_unexpected_error_is_a_500_without_details() -> None:
    """Catches a traceback sent to the client, and a connection closed without an answer."""

    def explode(stream: FakeStream) -> None:
        raise RuntimeError("secret path /srv/models")

    fake = FakeEngine(speaking)
    with served(lambda settings: fake.engine) as url:
        wait_for(lambda: httpx.get(f"{url}/readyz").status_code == 200, "readiness")
        fake.on_submit = explode
        reply = httpx.post(f"{url}/v1/tts", json=BODY)
        assert reply.status_code == 500
        assert reply.json()["error"]["code"] == "internal_error"
        assert "secret" not in reply.text


def test_an_engine_that_has_died_is_not_ready() -> None:
    """Catches a server that answers its probes for ever although it cannot speak."""

    def refuse(stream: FakeStream) -> None:
        raise ClosedError("the engine has failed and takes no more work: out of memory")

    fake = FakeEngine(refuse)
    with served(lambda settings: fake.engine) as url:
        wait_for(lambda: httpx.get(f"{url}/readyz").status_code == 200, "readiness")
        reply = httpx.post(f"{url}/v1/tts", json=BODY)
        assert reply.status_code == 503
        assert "out of memory" in reply.json()["error"]["message"]
        ready = httpx.get(f"{url}/readyz")
        assert ready.status_code == 503
        assert ready.json()["status"] == "failed"


def test_the_deadline_is_a_504_and_frees_the_slot() -> None:
    """Catches a client that waits for ever for an engine that hangs."""
    fake = FakeEngine(speaking)
    with served(lambda settings: fake.engine, request_timeout=0.2) as url:
        wait_for(lambda: httpx.get(f"{url}/readyz").status_code == 200, "readiness")
        hung: list[FakeStream] = []
        fake.on_submit = hung.append

        def confirm() -> None:
            wait_for(lambda: bool(hung) and hung[0].cancelled.is_set(), "cancellation")
            hung[0].end("cancelled")

        caller = threading.Thread(target=confirm)
        caller.start()
        reply = httpx.post(f"{url}/v1/tts", json=BODY, timeout=TIMEOUT)
        caller.join()
        assert reply.status_code == 504
        assert httpx.get(f"{url}/readyz").json()["running"] == 0


def test_sigterm_lets_streams_finish_and_exits_with_0(tmp_path: Path) -> None:
    """Catches streams cut by a deployment, new work taken meanwhile, and an exit code that looks like a crash."""
    server = Server(tmp_path, slots=1).until_ready()
    body = {"text": ENDLESS, "seed": 7, "stream": True, "max_seconds": 100}
    with httpx.stream("POST", f"{server.url}/v1/tts", json=body, timeout=TIMEOUT) as reply:
        chunks = reply.iter_raw()
        received = next(chunks)
        server.process.send_signal(signal.SIGTERM)
        wait_for(lambda: httpx.get(f"{server.url}/readyz").status_code == 503, "readiness off")
        assert httpx.get(f"{server.url}/livez").status_code == 200
        refused = httpx.post(f"{server.url}/v1/tts", json=BODY)
        assert refused.status_code == 503
        assert refused.json()["error"]["code"] == "closing"
        assert int(refused.headers["retry-after"]) >= 1
        received += b"".join(chunks)
    decoded, rate = soundfile.read(io.BytesIO(received), dtype="int16")
    assert len(decoded) / rate > 90
    assert server.stop() == 0


def test_streams_that_outlast_the_grace_period_are_broken_off(tmp_path: Path) -> None:
    """Catches a shutdown that never ends, and one that gives a cut stream a proper end."""
    server = Server(tmp_path, slots=1, grace_seconds=0.2).until_ready()
    with httpx.stream("POST", f"{server.url}/v1/tts", json={"text": ENDLESS, "stream": True}, timeout=TIMEOUT) as reply:
        chunks = reply.iter_raw()
        assert next(chunks)
        server.process.send_signal(signal.SIGTERM)
        with pytest.raises(httpx.RemoteProtocolError):
            listen(chunks)
    assert server.stop() == 0
    assert [line["outcome"] for line in server.log() if line.get("endpoint") == "/v1/tts"] == ["cancelled"]


def test_a_start_that_fails_is_one_line_and_exit_code_1(tmp_path: Path) -> None:
    """Catches tracebacks for a wrong path, a file that is no model, and a port that is taken."""
    wrong = tmp_path / "wrong.gguf"
    wrong.write_bytes(b"Not found")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        for options, told in [
            (["--port", "0", "--model", str(tmp_path / "none.gguf")], "none.gguf"),
            (["--port", "0", "--model", str(wrong)], "wrong.gguf"),
            (["--port", port], "choose another with --host and --port"),
            (["--port", "0", "--host", "no.such.host.invalid"], "cannot listen"),
        ]:
            done = subprocess.run(
                [sys.executable, "-m", "kestrel", "serve", *options], check=False, capture_output=True, text=True,
                timeout=120,
            )  # fmt: skip
            assert done.returncode == 1, done.stderr
            assert told in done.stderr.splitlines()[-1]
            assert "Traceback" not in done.stderr


def test_settings_page_is_the_one_in_the_documentation() -> None:
    """Documentation that drifts from the class."""
    page = Path(__file__).parents[2] / "docs" / "settings.md"
    assert page.read_text() == settings_page()


def test_every_setting_can_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """A type that takes no strings could be set from Python alone."""
    for name, info in Settings.model_fields.items():
        monkeypatch.setenv(f"KESTREL_{name.upper()}", str(info.default))
    assert Settings() == Settings.model_construct()


def test_misspelt_variables_are_noticed() -> None:
    """`KESTREL_SLOT=8` that silently does nothing costs an afternoon."""
    assert unknown_variables(["KESTREL_SLOT", "KESTREL_SLOTS", "KESTREL_LIBRARY", "PATH"]) == ["KESTREL_SLOT"]
