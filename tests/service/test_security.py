"""Keys, origins, limits of the head, headers for browsers: what keeps a server on a network from being anyone's."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
import uvicorn
from hypothesis import given
from hypothesis import strategies as st
from starlette.datastructures import Headers
from websockets.exceptions import InvalidStatus

from kestrel.service.errors import ApiError
from kestrel.service.http_protocol import HttpProtocol
from kestrel.service.keys import KeyRing, KeysError, needs_key, read_keys
from kestrel.service.web import allowed_origin, origins
from tests.service.live_client import live
from tests.service.server_process import PATIENCE, Server, wait_for

KEY, OTHER = "correct-horse-battery", "staple+staple=="
TEXT = {"text": "Quixotic zephyrs.", "seed": 7}


@pytest.fixture(scope="module")
def locked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with two keys, one from the environment and one from a file, and one allowed origin."""
    folder = tmp_path_factory.mktemp("locked")
    (folder / "keys").write_text(f"# for the kitchen\n\n{OTHER}\n")
    server = Server(folder, api_keys=KEY, api_keys_file=folder / "keys", cors_origins="https://app.example",
                    max_seconds=0.2, max_header_bytes=4096).until_ready()  # fmt: skip
    yield server
    assert server.stop() == 0
    assert KEY not in server._log.read_text() + server.messages
    assert OTHER not in server._log.read_text() + server.messages
    assert "uixotic" not in server._log.read_text()


def test_speech_needs_a_key_and_probes_do_not(locked: Server) -> None:
    """Catches an unprotected route, a supervisor locked out, and a key accepted by a part of it."""
    open_paths = {"/livez", "/readyz", "/docs", "/openapi.json"}
    paths = httpx.get(f"{locked.url}/openapi.json").json()["paths"]
    for path in open_paths | set(paths):
        reply = httpx.request("POST" if path == "/v1/tts" else "GET", locked.url + path)
        if path in open_paths:
            assert reply.status_code == 200, path
        else:
            assert reply.status_code == 401, path
            assert reply.headers["www-authenticate"] == "Bearer"
            assert reply.json()["error"]["code"] == "missing_api_key"
    for headers in ({"Authorization": f"Bearer {KEY}"}, {"authorization": f"bearer  {OTHER}"}, {"X-API-Key": OTHER}):
        assert httpx.post(f"{locked.url}/v1/tts", json=TEXT, headers=headers, timeout=PATIENCE).status_code == 200
    for wrong in (KEY[:-1], KEY + "x", KEY.upper(), "key 1", "x" * 3000):
        for headers in ({"Authorization": f"Bearer {wrong}"}, {"X-API-Key": wrong}, {"Authorization": wrong}):
            reply = httpx.post(f"{locked.url}/v1/tts", json=TEXT, headers=headers)
            assert reply.status_code == 401
            assert reply.json()["error"]["type"] == "authentication_error"


def test_a_websocket_needs_a_key_and_a_known_origin(locked: Server) -> None:
    """Catches the side door: browsers open WebSockets to any host, with no question asked."""
    key = {"X-API-Key": KEY}
    for origin, headers, status in [
        (None, {}, 401),
        (None, {"Authorization": "Bearer nonsense"}, 401),
        ("https://evil.example", key, 403),
        ("null", key, 403),
    ]:
        with pytest.raises(InvalidStatus) as refused, live(locked.url, origin=origin, additional_headers=headers):
            pass
        assert refused.value.response.status_code == status
        assert json.loads(refused.value.response.body or b"")["error"]["code"]
    for origin in (None, "https://app.example", locked.url):
        with live(locked.url, origin=origin, additional_headers=key) as client:
            client.send("close")
            assert client.rest() == 1000


def test_pages_of_other_origins_are_kept_out_unless_listed(locked: Server, terse: Server) -> None:
    """Catches `*` by default, credentials, and a preflight that the keys block."""
    ask = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization, content-type"}

    def preflight(server: Server, origin: str) -> httpx.Response:
        return httpx.options(f"{server.url}/v1/tts", headers=ask | {"Origin": origin})

    allowed = preflight(locked, "https://app.example")
    assert allowed.status_code == 200
    assert allowed.headers["access-control-allow-origin"] == "https://app.example"
    assert "access-control-allow-credentials" not in allowed.headers
    for reply in (preflight(locked, "https://evil.example"), preflight(terse, "https://app.example")):
        assert reply.status_code >= 400
        assert "access-control-allow-origin" not in reply.headers
    refused = httpx.post(f"{locked.url}/v1/tts", json=TEXT, headers={"Origin": "https://app.example"})
    assert refused.status_code == 401
    assert refused.headers["access-control-allow-origin"] == "https://app.example", "the page could not read why"
    assert "X-Request-Id" in refused.headers["access-control-expose-headers"]


def test_browsers_are_told_not_to_guess_or_frame(locked: Server) -> None:
    """Catches JSON read as a script, and a page in a foreign frame."""
    page = httpx.get(f"{locked.url}/docs")
    assert "frame-ancestors 'none'" in page.headers["content-security-policy"]
    for path in ("/docs", "/livez", "/v1/tts", "/nothing"):
        assert httpx.get(locked.url + path).headers["x-content-type-options"] == "nosniff"


def exchange(url: str, data: bytes) -> bytes:
    """Bytes sent as they are; everything that comes back until the server closes."""
    host, _, port = url.removeprefix("http://").partition(":")
    with socket.create_connection((host, int(port)), timeout=PATIENCE) as connection:
        connection.sendall(data)
        received = b""
        while part := connection.recv(65536):
            received += part
    return received


UPGRADE = (
    b"GET /v1/tts/stream HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
)


@pytest.mark.parametrize(
    ("data", "status", "code"),
    [
        (UPGRADE + b"".join(b"X%d: 1\r\n" % number for number in range(200)) + b"\r\n", 400, "invalid_handshake"),
        (UPGRADE.replace(b"GET", b"POST") + b"Content-Length: 3\r\n\r\nabc", 400, "invalid_handshake"),
        (UPGRADE.replace(b"/v1/tts/stream", b"/nothing") + b"\r\n", 404, "not_found"),
        (UPGRADE.replace(b"/v1/tts/stream", b"/livez") + b"\r\n", 404, "not_found"),
        (b"GET /livez HTTP/1.1\r\nHost: a\r\nX-Long: " + b"a" * 9000, 431, "headers_too_large"),
        (b"GET /" + b"a" * 9000, 431, "headers_too_large"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 a TLS hello\r\n\r\n", 400, "invalid_http"),
        (b"GET /livez HTTP/1.1\r\n\r\n", 400, "invalid_http"),
        (b"GET /livez HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n", 400, "invalid_http"),
        (b"GET /livez HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", 400, "invalid_http"),
    ],
)
def test_a_broken_head_gets_an_answer_of_ours(locked: Server, data: bytes, status: int, code: str) -> None:
    """Catches heads of any size read into memory, request smuggling, and refusals without a reason."""
    head, _, body = exchange(locked.url, data).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 %d " % status)
    assert json.loads(body)["error"]["code"] == code
    assert httpx.get(f"{locked.url}/livez").status_code == 200


def test_a_head_that_never_ends_is_cut_off() -> None:
    """Catches connections held open by a byte now and then: also after a first, complete request."""

    async def app(scope: object, receive: object, send: object) -> None:
        await send({"type": "http.response.start", "status": 204, "headers": []})  # type: ignore[operator]
        await send({"type": "http.response.body"})  # type: ignore[operator]

    class Impatient(HttpProtocol):
        head_timeout = 0.2

    bound = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(app, http=Impatient, log_config=None, lifespan="off", ws="none", timeout_keep_alive=1)  # type: ignore[arg-type]
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]})
    thread.start()
    try:
        wait_for(lambda: server.started, "the server listens")
        url = f"http://127.0.0.1:{bound.getsockname()[1]}"
        for data in (b"", b"GET / HT", b"GET / HTTP/1.1\r\nHost: a\r\n\r\nGET / HTTP/1.1\r\nHo"):
            received = exchange(url, data)
            assert b"headers_timeout" in received or (b" 204 " in received and b"GET" in data)
    finally:
        server.should_exit = True
        thread.join()


def test_texts_are_logged_only_when_switched_on(tmp_path: Path) -> None:
    """The default is tested with every server; this catches a switch that does nothing."""
    server = Server(tmp_path, log_text="true", max_seconds=0.2).until_ready()
    reply = httpx.post(f"{server.url}/v1/tts", json=TEXT, timeout=PATIENCE)
    assert server.logged(reply.headers["x-request-id"])["text"] == TEXT["text"]
    with live(server.url) as client:
        client.send("text", text="Quixotic zephyrs, once more.")
        client.send("close")
        client.rest()
    assert server.logged(f"{client.events[0]['request_id']}.0")["text"] == "Quixotic zephyrs, once more."
    assert server.stop() == 0


KEYS = st.text(st.characters(min_codepoint=33, max_codepoint=126, exclude_characters=","), min_size=8, max_size=40)


@given(st.lists(KEYS, min_size=1, max_size=4, unique=True), st.text(max_size=50))
def test_exactly_the_listed_keys_open(keys: list[str], guess: str) -> None:
    """Catches prefixes, other cases and near misses that open, and a listed key that does not."""
    ring = KeyRing(read_keys(",".join(keys), ""))
    for number, key in enumerate(keys, 1):
        assert ring.owner(Headers({"authorization": f"Bearer {key}"})) == f"key {number}"
        for near in (key[:-1], key + "a", key.swapcase(), guess):
            if near.strip() not in keys:
                with pytest.raises(ApiError, match="API key"):
                    ring.owner(Headers(raw=[(b"x-api-key", near.encode("utf-8").replace(b"\n", b""))]))


def test_unusable_keys_stop_the_start(tmp_path: Path) -> None:
    """Catches a server that is open because its file of keys is empty or mistyped, and a key shown in the message."""
    empty, bad = tmp_path / "empty", tmp_path / "bad"
    empty.write_text("# nothing yet\n")
    bad.write_text("good-enough-key\nsec ret\n")
    assert read_keys("", "") == []
    for listed, file, told in [
        ("", str(empty), "holds no key"),
        ("", str(bad), "line 2 of"),
        ("short", "", "key 1 is not an API key"),
    ]:
        with pytest.raises(KeysError, match=told) as refused:
            read_keys(listed, file)
        assert "sec ret" not in str(refused.value)
        assert "short" not in str(refused.value)
    done = subprocess.run(
        [sys.executable, "-m", "kestrel", "serve", "--port", "0"], check=False, capture_output=True, text=True,
        timeout=120, env={"KESTREL_API_KEYS_FILE": str(tmp_path / "none"), "PATH": ""},
    )  # fmt: skip
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("error: ")
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("listed", ["example.com", "https://a.example/path", "https://a.example,nonsense", "https://"])
def test_an_origin_that_no_browser_sends_is_refused(listed: str) -> None:
    """A misspelt origin that is silently never matched costs an afternoon."""
    with pytest.raises(ValueError, match="is not an origin"):
        origins(listed)


def test_decisions_about_origins_and_paths() -> None:
    """Catches comparisons by prefix or without the port."""
    assert origins(" https://a.example/ ,http://localhost:3000") == ["https://a.example", "http://localhost:3000"]
    assert allowed_origin(None, "a:1", [])
    assert allowed_origin("http://a:1", "A:1", [])
    assert allowed_origin("https://b", "a:1", ["*"])
    assert not allowed_origin("http://a:2", "a:1", [])
    assert not allowed_origin("http://a:1.evil.example", "a:1", [])
    assert not allowed_origin("https://a.example.evil", "x", ["https://a.example"])
    assert not allowed_origin("null", "a", [])
    assert [needs_key(path) for path in ("/v1/tts", "/metrics", "/livez", "/", "/docs")] == [True] * 2 + [False] * 3
