"""Servers for the tests: one with the default limits, one that speaks very briefly."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.service.server_process import Server


@pytest.fixture(scope="session", autouse=True)
def state_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keeps servers without a folder for jobs out of the home of whoever runs the tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        yield


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Two slots, two waiting places. Never waits for a slow client, so that only speech decides when a slot is free."""
    folder = tmp_path_factory.mktemp("server")
    server = Server(folder, slots=2, queue_size=2, read_ahead_seconds=600).until_ready()
    yield server
    server.stop()


@pytest.fixture(scope="session")
def terse(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """At most 0.2 s of audio a request, so that thousands of requests cost little."""
    server = Server(tmp_path_factory.mktemp("terse"), slots=1, queue_size=2, max_seconds=0.2).until_ready()
    yield server
    server.stop()
