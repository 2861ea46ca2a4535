"""Limits of one client: how often it may ask, and how many of its requests run or wait at the same time.

A client is an API key; without keys, a network address. The decisions take the time as an argument; `LimitClients` is
the layer that asks for them. Not thread-safe: every call belongs to the event loop.
"""

from __future__ import annotations

import ipaddress
import math
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic

from starlette.types import ASGIApp, Receive, Scope, Send

from kestrel.service.errors import OVERLOADED, ApiError
from kestrel.service.refusal import refuse

MAX_CLIENTS = 10_000
"""Clients remembered; a flood of addresses must not fill the memory."""


@dataclass(slots=True)
class TokenBucket:
    """So many tokens a second, at most `burst` at once. Times in seconds on any clock that does not go back."""

    rate: float
    burst: float
    tokens: float
    at: float

    def take(self, now: float) -> float:
        """Takes a token and returns 0, or takes none and returns the seconds until there is one."""
        self.tokens = min(self.burst, self.tokens + max(0.0, now - self.at) * self.rate)
        self.at = max(self.at, now)
        if self.tokens >= 1:
            self.tokens -= 1
            return 0.0
        return (1 - self.tokens) / self.rate


@dataclass(slots=True)
class _Client:
    bucket: TokenBucket
    running: int = 0


class ClientLimits:
    """`concurrency` 0 and `per_minute` 0: no limit of that kind."""

    def __init__(self, concurrency: int, per_minute: float, burst: int) -> None:
        self._concurrency, self._per_minute, self._burst = concurrency, per_minute, burst
        self._clients: OrderedDict[str, _Client] = OrderedDict()  # least recently seen first

    def enter(self, name: str, now: float, retry_after: int) -> None:
        """Counts a request that begins. Raises ApiError 429, then nothing was counted; else `leave` must follow."""
        client = self._client(name, now)
        if 0 < self._concurrency <= client.running:
            told = f"{client.running} requests of this client run or wait, the limit is {self._concurrency}"
            raise _too_many(f"{told}; try again in {retry_after} s", retry_after, code="client_concurrency")
        client.running += 1

    def leave(self, name: str) -> None:
        """A request has ended."""
        self._clients[name].running -= 1

    def take(self, name: str, now: float) -> None:
        """Counts one thing to speak. Raises ApiError 429 if it is too early."""
        if self._per_minute <= 0:
            return
        wait = math.ceil(self._client(name, now).bucket.take(now))
        if wait > 0:
            told = f"this client may send {self._per_minute:g} requests a minute; try again in {wait} s"
            raise _too_many(told, wait, code="rate_limited")

    def _client(self, name: str, now: float) -> _Client:
        client = self._clients.get(name)
        if client is None:
            client = _Client(TokenBucket(self._per_minute / 60, self._burst, self._burst, now))
            self._clients[name] = client
            self._forget()
        self._clients.move_to_end(name)
        return client

    def _forget(self) -> None:
        if len(self._clients) > MAX_CLIENTS:
            oldest = next((name for name, client in self._clients.items() if not client.running), None)
            if oldest is not None:
                del self._clients[oldest]


def _too_many(message: str, retry_after: int, *, code: str) -> ApiError:
    return ApiError(429, message, code=code, kind=OVERLOADED, headers={"Retry-After": str(retry_after)})


def client_name(key: str | None, address: str | None) -> str:
    """Whom to count a request for. IPv6: the network, since one client has 2**64 addresses."""
    if key is not None:
        return key
    try:
        parsed = ipaddress.ip_address(address or "")
    except ValueError:
        return "unknown"
    if isinstance(parsed, ipaddress.IPv6Address) and parsed.ipv4_mapped is None:
        return str(ipaddress.ip_network((parsed, 64), strict=False))
    return str(parsed)


class LimitClients:
    """ASGI middleware for what makes speech. `retry_after`: seconds until work that runs now is expected to be done."""

    def __init__(self, app: ASGIApp, limits: ClientLimits, retry_after: Callable[[], int]) -> None:
        self.app = app
        self.limits = limits
        self.retry_after = retry_after

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        socket = scope["type"] == "websocket"
        if not (socket or scope.get("method") == "POST") or not scope["path"].startswith("/v1/"):
            await self.app(scope, receive, send)
            return
        state = scope.setdefault("state", {})
        name = client_name(state.get("key"), (scope.get("client") or (None,))[0])
        try:
            self.limits.enter(name, monotonic(), self.retry_after())
        except ApiError as error:
            await refuse(error, scope, receive, send)
            return
        try:
            if socket:  # it asks for each of its utterances
                state["take"] = lambda: self.limits.take(name, monotonic())
            elif refusal := self._too_early(name):
                await refuse(refusal, scope, receive, send)
                return
            await self.app(scope, receive, send)
        finally:
            self.limits.leave(name)

    def _too_early(self, name: str) -> ApiError | None:
        try:
            self.limits.take(name, monotonic())
        except ApiError as error:
            return error
        return None
