"""Limits of one client: buckets on a clock of the test's own, and the refusals of a real server."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from websockets.exceptions import InvalidStatus

from kestrel.service import limits as module
from kestrel.service.errors import ApiError
from kestrel.service.limits import ClientLimits, TokenBucket, client_name
from tests.service.fake_engine import FakeEngine
from tests.service.live_client import live
from tests.service.server_process import PATIENCE, Server, wait_for
from tests.service.test_life import BODY, speaking
from tests.service.test_live_engine import faked


@given(st.floats(0.01, 50), st.integers(1, 20), st.lists(st.floats(0, 30), max_size=60))
def test_never_more_than_burst_and_rate(rate: float, burst: int, pauses: list[float]) -> None:
    """In any span of time at most burst + rate * span get through; and the wait that is told is the true one."""
    bucket = TokenBucket(rate, burst, burst, 0.0)
    now, passed = 0.0, []
    for pause in pauses:
        now += pause
        wait = bucket.take(now)
        if wait == 0:
            passed.append(now)
        else:
            assert 0 < wait <= 1 / rate + 1e-9
            again = TokenBucket(bucket.rate, bucket.burst, bucket.tokens, bucket.at)
            assert again.take(now + wait * 0.9) > 0
            assert bucket.take(now + wait * 1.001 + 1e-9) == 0
            now += wait * 1.001 + 1e-9
            passed.append(now)
    for first in range(len(passed)):
        for last in range(first, len(passed)):
            assert last - first + 1 <= burst + rate * (passed[last] - passed[first]) + 1e-6


def test_a_clock_that_stands_still_or_goes_back_gives_nothing() -> None:
    """Catches tokens out of nowhere."""
    bucket = TokenBucket(1.0, 1, 1, 100.0)
    assert bucket.take(100.0) == 0
    assert bucket.take(50.0) > 0
    assert bucket.take(100.0) > 0
    assert bucket.take(101.0) == 0


def test_clients_are_counted_apart_and_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches one client paying for another, a count that leaks, and memory that grows with every address."""
    monkeypatch.setattr(module, "MAX_CLIENTS", 3)
    limits = ClientLimits(1, 60.0, 2)
    limits.enter("a", 0.0, 7)
    with pytest.raises(ApiError) as refused:
        limits.enter("a", 0.0, 7)
    assert (refused.value.status, refused.value.code) == (429, "client_concurrency")
    assert refused.value.headers == {"Retry-After": "7"}
    for number in range(10):
        limits.enter(f"b{number}", 0.0, 7)
        limits.leave(f"b{number}")
    assert len(limits._clients) == 3
    limits.leave("a")  # a running one was not forgotten
    limits.enter("a", 0.0, 7)
    limits.take("a", 0.0)
    limits.take("a", 0.0)
    with pytest.raises(ApiError, match="try again in 1 s"):
        limits.take("a", 0.0)
    limits.take("c", 0.0)
    limits.take("a", 1.0)


def test_who_a_client_is() -> None:
    """Catches a limit that IPv6 users step around with their other addresses."""
    assert client_name("key 2", "10.0.0.1") == "key 2"
    assert client_name(None, "10.0.0.1") == "10.0.0.1"
    assert client_name(None, "2001:db8:1:2:3::4") == client_name(None, "2001:db8:1:2::ffff") == "2001:db8:1:2::/64"
    assert client_name(None, None) == client_name(None, "not an address") == "unknown"


@pytest.fixture
def fake() -> FakeEngine:
    return FakeEngine(speaking)


@pytest.fixture
def limited(fake: FakeEngine) -> Iterator[str]:
    """Two keys; each may have two requests at the same time, and three at once, then hardly any."""
    with faked(fake, slots=4, api_keys="key-number-one,key-number-two", client_concurrency=2,
               client_requests_per_minute=0.01, client_burst=3) as url:  # fmt: skip
        yield url


def ask(url: str, number: str) -> httpx.Response:
    return httpx.post(f"{url}/v1/tts", json=BODY, headers={"X-API-Key": f"key-number-{number}"}, timeout=PATIENCE)


def test_the_rate_of_a_key(limited: str) -> None:
    """Catches a limit shared by all keys, one that counts what is free, and a refusal without a time."""
    assert [ask(limited, "one").status_code for _ in range(3)] == [200] * 3
    refused = ask(limited, "one")
    assert refused.status_code == 429
    assert refused.json()["error"]["code"] == "rate_limited"
    assert 5000 < int(refused.headers["retry-after"]) <= 6000
    key = {"X-API-Key": "key-number-one"}
    assert httpx.get(f"{limited}/v1/voices", headers=key).status_code == 200
    assert ask(limited, "two").status_code == 200
    with live(limited, additional_headers=key) as client:
        client.send("text", text="Too early for this one. And")
        assert client.until("error")["error"]["code"] == "rate_limited"
        client.send("text", text=" for its second half.")
        client.send("flush")
        done = client.until("utterance.done")
        assert (done["finish_reason"], done["sentences"]) == ("error", 0)


def test_the_concurrency_of_a_key(limited: str, fake: FakeEngine) -> None:
    """Catches one client holding every slot, and a count that a departure does not lower."""
    key = {"X-API-Key": "key-number-one"}
    with ExitStack() as stack:
        for _ in range(2):
            stack.enter_context(live(limited, additional_headers=key))
        refused = ask(limited, "one")
        assert refused.status_code == 429
        assert refused.json()["error"]["code"] == "client_concurrency"
        assert int(refused.headers["retry-after"]) >= 1
        with pytest.raises(InvalidStatus) as socket, live(limited, additional_headers=key):
            pass
        assert socket.value.response.status_code == 429
        assert json.loads(socket.value.response.body or b"")["error"]["code"] == "client_concurrency"
        assert ask(limited, "two").status_code == 200
    wait_for(lambda: ask(limited, "one").status_code == 200, "the count is down")


def test_a_deadline_of_the_client(server: Server) -> None:
    """Catches a field that is read and not kept: the audio of a long text cannot be complete in that time."""
    reply = httpx.post(
        f"{server.url}/v1/tts",
        json={"text": "A sentence that goes on. " * 150, "deadline_seconds": 0.2},
        timeout=PATIENCE,
    )
    assert reply.status_code == 504
    assert "0.2 s" in reply.json()["error"]["message"]
    assert httpx.post(
        f"{server.url}/v1/tts", json={"text": "Hello.", "deadline_seconds": 120}, timeout=PATIENCE
    ).is_success
