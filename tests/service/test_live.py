"""The WebSocket on a real server with the default voice: text in pieces, audio out, barge-in, departures."""

from __future__ import annotations

import random
import signal
import socket
from contextlib import suppress
from pathlib import Path

import pytest
from websockets.exceptions import ConnectionClosed

from tests.service.live_client import LiveClient, live
from tests.service.server_process import Server, wait_for
from tests.service.test_server import ENDLESS, LONG, SHORT, speak


def tokens(text: str, seed: int) -> list[str]:
    """The text as a language model would hand it over: in parts of one to seven characters."""
    rng, parts, at = random.Random(seed), [], 0
    while at < len(text):
        size = rng.randint(1, 7)
        parts.append(text[at : at + size])
        at += size
    return parts


@pytest.mark.parametrize("audio", ["binary", "base64"])
def test_pieces_of_text_give_the_samples_of_the_whole_text(server: Server, audio: str) -> None:
    """Catches text lost or cut differently in the buffer, seeds by session instead of by utterance, audio out of order,

    and positions that do not refer to the text as it was sent.
    """
    with live(server.url) as client:
        client.send("config", seed=7, audio=audio)
        assert client.next()["audio"] == audio
        for part in tokens(LONG, 1):
            client.send("text", text=part)
        client.send("flush")
        done = client.until("utterance.done")
        client.send("text", text=SHORT)
        client.send("close")
        assert client.rest() == 1000
    assert client.pcm[0] == speak(server, LONG, format="pcm").content
    assert client.pcm[1] == speak(server, SHORT, format="pcm").content
    assert done["finish_reason"] == "eos"
    assert done["audio_seconds"] == pytest.approx(len(client.pcm[0]) / 32000)
    assert client.events[-1]["type"] == "session.done"
    assert client.events[-1]["utterances"] == 2
    words = [word for event in client.of("sentence.done") if event["utterance"] == 0 for word in event["words"]]
    assert [LONG[word["start"] : word["end"]] for word in words] == LONG.replace(",", "").replace(".", "").split()
    seconds = [word["seconds"] for word in words]
    assert seconds == sorted(seconds)
    assert 0 <= seconds[0] < seconds[-1] < done["audio_seconds"]
    for event in client.of("sentence.start"):
        text = LONG if event["utterance"] == 0 else SHORT
        assert text[event["start"] : event["end"]] == event["text"]
    order = [(event["utterance"], event["sentence"]) for event in client.events if "sentence" in event]
    assert order == sorted(order)
    assert server.logged(f"{client.events[0]['request_id']}.0")["finish_reason"] == "eos"


def test_a_sentence_is_spoken_while_the_next_is_being_written(server: Server) -> None:
    """Catches a buffer that waits for the flush; and a place in the engine that is held while nothing is written."""
    with live(server.url) as client:
        client.send("text", text="In the year of the storm the old harbour lay quiet. Nob")
        assert client.until("sentence.done")["sentence"] == 0
        wait_for(lambda: server.readiness()["running"] == 0, "the place is given away")
        client.send("text", text="ody knew.")
        client.send("flush")
        assert client.until("utterance.done")["sentences"] == 2


def test_clear_drops_all_and_the_session_goes_on(server: Server) -> None:
    """Barge-in: catches audio of the old answer after `cleared`, a slot that speaks on, and a session left broken."""
    cancels = server.metric("tts_cancel_latency_seconds_count", cause="clear")
    with live(server.url) as client:
        client.send("config", seed=7)
        client.send("text", text=ENDLESS)
        client.send("flush")
        client.send("text", text="Another answer, which nobody will hear. And")
        client.until("audio")
        client.send("clear")
        cleared = client.until("cleared")
        assert [item["utterance"] for item in cleared["utterances"]] == [0, 1]
        assert cleared["next_utterance"] == 2
        assert cleared["utterances"][0]["sent_seconds"] == pytest.approx(len(client.pcm[0]) / 32000, abs=1e-5)
        client.send("text", text=SHORT)
        client.send("flush")
        after = client.until("utterance.done")
        assert after["utterance"] == 2
        assert {event["utterance"] for event in client.events[cleared["index"] + 1 :]} == {2}
        assert client.pcm[2] == speak(server, SHORT, format="pcm").content
    line = server.logged(f"{client.events[0]['request_id']}.0")
    assert line["outcome"] == line["finish_reason"] == "cancelled"
    assert line["audio_seconds"] < 60
    assert server.metric("tts_cancel_latency_seconds_count", cause="clear") == cancels + 1


def test_a_client_that_vanishes_frees_its_slot(server: Server) -> None:
    """Catches speech for nobody: on a plain close, and when the connection is cut without one."""
    for cut in (False, True):
        with live(server.url) as client:
            client.send("text", text=ENDLESS)
            client.until("audio")
            if cut:
                client.connection.socket.close()
        line = server.logged(f"{client.events[0]['request_id']}.0")
        assert line["outcome"] == "cancelled"
        assert line["audio_seconds"] < 100
    wait_for(lambda: server.readiness()["running"] == 0, "the slots are free")


def test_configuration_is_sticky_and_a_wrong_one_changes_nothing(server: Server) -> None:
    """Catches settings that are forgotten after an utterance, half-applied, or applied in the middle of one."""
    with live(server.url) as client:
        client.send("config", seed=3, max_seconds=0.5)
        client.send("config", voice="nobody", seed=9)
        client.send("text", text=SHORT)
        client.send("config", max_seconds=None)
        client.send("flush")
        client.send("text", text=SHORT)
        client.send("flush")
        first, second = client.until("utterance.done"), client.until("utterance.done")
    assert client.of("error")[0]["error"]["code"] == "unknown_voice"
    assert client.of("config")[-1]["seed"] == 3
    assert (first["seed"], second["seed"]) == (3, 3)
    assert first["finish_reason"] == "length"
    assert first["audio_seconds"] <= 0.5
    assert second["finish_reason"] == "eos"


def test_shutdown_lets_an_answer_finish(tmp_path: Path) -> None:
    """Catches a deployment that cuts answers off, or waits for ever for a session that says nothing."""
    server = Server(tmp_path, slots=1).until_ready()
    with live(server.url) as idle, live(server.url) as client:
        client.send("config", seed=7, max_seconds=60)
        client.send("text", text=ENDLESS)
        client.send("flush")
        client.until("audio")
        server.process.send_signal(signal.SIGTERM)
        assert client.until("utterance.done")["audio_seconds"] > 50
        assert client.rest() == 1012
        assert idle.rest() == 1012
    assert server.stop() == 0


FUZZ_TEXTS = [
    "Hello there. ",
    "How",
    " are you? ",
    "7",
    "...",
    "\n\n",
    "漢字。",
    "😀",
    "a" * 300,
    '"No," he said. ',
    " ",
]
WRONG = [
    "", "null", "[]", "{}", '"text"', '{"type": 5}', '{"type": "speak"}', '{"type": "text"}',
    '{"type": "text", "text": ""}',
    '{"type": "text", "text": 5}', '{"type": "text", "text": "a\\u0000"}', '{"type": "text", "text": "\\ud800"}',
    '{"type": "flush", "text": "x"}', '{"type": "config", "speed": 2}', '{"type": "config", "seed": -1}',
    '{"type": "config", "temperature": NaN}', '{"type": "config", "voice": "\\udc00"}',
    '{"type": "config", "audio": "mp3"}',
    '{"type": "config", "max_seconds": 1e9}', '{"type": "\\ud800"}', '{"\\ud800": 1, "type": "flush"}', "[" * 50_000,
    '{"type": "config", "seed": 1' + "0" * 5000 + "}", '{"type": "text", "text": "' + "word " * 2000 + '"}',
    b"\x00\xff", b"",
]  # fmt: skip


def converse(client: LiveClient, rng: random.Random) -> tuple[int, int]:
    """A random conversation up to `close`. Returns how many messages were wrong, and how many flushes were sent."""
    wrong = flushes = 0
    for _ in range(rng.randint(0, 12)):
        match rng.choice("tttttfccwww"):
            case "t":
                client.send("text", text=rng.choice(FUZZ_TEXTS))
            case "f":
                client.send("flush")
                flushes += 1
            case "c":
                if rng.random() < 0.5:
                    client.send("clear")
                else:
                    client.send("config", seed=rng.randrange(9), audio=rng.choice(["binary", "base64", None]))
            case _:
                client.connection.send(rng.choice(WRONG))
                wrong += 1
    client.send("close")
    return wrong, flushes


def test_1000_random_conversations(terse: Server) -> None:
    """Catches any message that ends a session, gets no clear error or two, a flush without its end, or lost order."""
    rng = random.Random(20_261_201)
    unspeakable = ("invalid_text", "unsupported_characters")
    for number in range(1000):
        with live(terse.url) as client:
            wrong, flushes = converse(client, rng)
            assert client.rest() == 1000, number
        assert client.events[-1]["type"] == "session.done"
        errors = [event["error"] for event in client.of("error")]
        for error in errors:
            assert set(error) == {"message", "type", "param", "code"}
            assert error["message"]
        assert sum(error["code"] not in unspeakable for error in errors) == wrong, number
        ended = {event["utterance"] for event in client.of("utterance.done")}
        for event in client.of("cleared"):
            ended |= {item["utterance"] for item in event["utterances"]}
        assert ended == set(range(client.events[-1]["utterances"])), number
        assert flushes <= len(ended), number
    assert speak(terse).status_code == 200
    assert terse.readiness()["running"] == 0
    assert not [line for line in terse.log() if line["level"] == "error"]


def test_broken_frames_and_too_large_messages_end_only_their_session(terse: Server) -> None:
    """Catches a protocol error that reaches the server, and a message limit that is not there."""
    rng = random.Random(5)
    for _ in range(50):
        with live(terse.url) as client, suppress(OSError):  # the client gives up as soon as the server does
            client.connection.socket.sendall(rng.randbytes(rng.randint(1, 300)))
            client.connection.socket.shutdown(socket.SHUT_WR)
    with live(terse.url) as client:
        client.connection.send("x" * 300_000)
        with pytest.raises(ConnectionClosed) as closed:
            client.connection.recv(60)
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == 1009
    assert speak(terse).status_code == 200


def test_200_clients_that_connect_and_vanish(server: Server) -> None:
    """Catches slots, tasks and memory left behind by clients that leave at any moment, without a word."""
    rng = random.Random(11)
    memory = 0.0
    for number in range(200):
        with live(server.url) as client:
            for _ in range(rng.randint(0, 3)):
                client.send(rng.choice(["text", "text", "flush", "clear"]))
            client.send("text", text="Words for nobody, who has left already. " * 3)
            if rng.random() < 0.5:
                client.until("sentence.start")
            # close alone tells the server nothing while the client's reading thread waits in the kernel
            client.connection.socket.shutdown(socket.SHUT_RDWR)
            client.connection.socket.close()
        if number == 50:
            memory = server.metric("process_resident_memory_bytes")
    wait_for(lambda: server.readiness()["running"] == 0 == server.readiness()["waiting"], "every slot is free")
    # About one departure in a thousand is noticed only by the idle limit (docs/websocket.md); its slot is free by then.
    wait_for(lambda: server.metric("tts_websocket_sessions") <= 2, "the sessions have ended")
    assert server.metric("process_resident_memory_bytes") < memory * 1.05
    assert speak(server).status_code == 200
