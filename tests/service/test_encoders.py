"""Every format against the samples that went in: nothing lost, nothing added, wherever the bytes stop."""

from __future__ import annotations

import io

import numpy as np
import pytest
import soundfile
from hypothesis import given, settings
from hypothesis import strategies as st

from kestrel.service.encoders import encoder
from kestrel.service.formats import FORMATS
from kestrel.service.output import AudioOutput
from tests.service.decoding import buzz, decode, frame_samples, likeness, resampled, without_priming

LOSSY = ("mp3", "opus", "aac")


def encoded(name: str, rate: int, samples: list[np.ndarray], *, whole: bool = False, out: int | None = None) -> bytes:
    """The reply for the given blocks."""
    output = AudioOutput(name, rate, whole=whole, rate=out)
    return b"".join([*(output.encode(block) for block in samples), output.finish()])


def blocks(pcm: np.ndarray, size: int = 1280) -> list[np.ndarray]:
    return [pcm[at : at + size] for at in range(0, len(pcm), size)]


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize(("rate", "out"), [(16000, None), (16000, 24000), (22050, None), (44100, None)])
@pytest.mark.parametrize("whole", [False, True])
def test_what_is_decoded_is_what_went_in(name: str, rate: int, out: int | None, whole: bool) -> None:
    """Catches a lost tail, packets left in the codec, clicks, a wrong rate, and more than a frame of padding.

    The sound is loud at both edges, so a lost or displaced first or last 50 ms cannot look like silence.
    """
    pcm = buzz(2.37, rate)
    samples, decoded_rate = decode(encoded(name, rate, blocks(pcm), whole=whole, out=out), name, out or rate)
    expected = resampled(pcm / 32768, rate, decoded_rate)
    samples = without_priming(samples, name, whole=whole)
    extra = len(samples) - len(expected)
    assert 0 <= extra <= frame_samples(name, decoded_rate)
    edge = decoded_rate // 20
    assert likeness(samples, expected) > 0.995
    assert likeness(samples[:edge], expected[:edge]) > 0.95
    assert likeness(samples[len(expected) - edge : len(expected)], expected[-edge:]) > 0.99
    assert np.abs(samples[len(expected) :]).max(initial=0) < 0.04  # a player would hear more as a click
    if name not in LOSSY and decoded_rate == rate:
        assert np.array_equal(np.round(samples * 32768), pcm)


@pytest.mark.parametrize("name", ["wav", "mp3", "opus", "flac"])
def test_a_second_decoder_reads_whole_files(name: str) -> None:
    """Catches files that only FFmpeg understands; libsndfile shares none of its code, and checks sizes strictly."""
    pcm = buzz(1.3, 16000)
    samples, rate = soundfile.read(io.BytesIO(encoded(name, 16000, blocks(pcm), whole=True)))
    expected = resampled(pcm / 32768, 16000, rate)
    assert abs(len(samples) - len(expected)) <= (0 if name != "opus" else 1)
    assert likeness(samples, expected) > 0.99


@pytest.mark.parametrize("name", FORMATS)
def test_every_packet_leaves_at_once(name: str) -> None:
    """Catches audio held back until the end, and a header sent before there is any audio to go with it.

    A codec may keep its look-ahead and the frame, or page, it is filling: 0.2 s of audio at most.
    """
    pcm = buzz(3.0, 16000)
    stream = encoder(name, 16000, whole=False)
    data = b""
    for index, block in enumerate(blocks(pcm, 640)):
        new = stream.encode(block)
        assert index > 4 or data or not new or len(new) > 200  # the first bytes are more than a header
        data += new
        if index >= 4:
            samples, rate = decode(data, name, 16000)
            assert len(without_priming(samples, name)) / rate >= (index + 1) * 0.04 - 0.2
    assert stream.finish() or name in ("wav", "pcm", "flac")


@settings(max_examples=40, deadline=None)
@given(name=st.sampled_from(sorted(FORMATS)), part=st.floats(0.05, 1.0))
def test_a_reply_that_breaks_off_decodes_up_to_there(name: str, part: float) -> None:
    """Catches containers that need their end to be read: a client that loses its connection keeps what it heard."""
    pcm = buzz(2.0, 16000)
    data = encoded(name, 16000, blocks(pcm))
    samples, rate = decode(data[: int(len(data) * part)], name, 16000)
    samples = without_priming(samples, name)
    expected = resampled(pcm / 32768, 16000, rate)
    assert len(samples) / rate > 2.0 * part * 0.6 - 0.25  # bytes are not spread evenly over the time
    heard = min(len(samples), len(expected)) - rate // 50  # the end of a cut frame may be concealed
    if heard > rate // 10:
        assert likeness(samples[:heard], expected[:heard]) > 0.95


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("samples", [1, 7, 300, 1500])
def test_very_short_audio(name: str, samples: int) -> None:
    """Catches codecs that give nothing, or fail, for less than a frame."""
    pcm = buzz(1.0, 16000)[:samples]
    decoded, rate = decode(encoded(name, 16000, [pcm]), name, 16000)
    assert len(without_priming(decoded, name)) >= samples * rate // 16000


@settings(max_examples=25, deadline=None)
@given(
    name=st.sampled_from(sorted(FORMATS)), out=st.sampled_from([None, 24000]),
    sizes=st.lists(st.integers(1, 6000), min_size=1, max_size=12),
)  # fmt: skip
def test_bytes_do_not_depend_on_how_samples_arrive(name: str, out: int | None, sizes: list[int]) -> None:
    """The engine's chunks depend on the load; a seed must give the same bytes all the same."""
    pcm = buzz(sum(sizes) / 16000 + 0.01, 16000)[: sum(sizes)]
    pieces = np.split(pcm, np.cumsum(sizes)[:-1])
    assert encoded(name, 16000, pieces, out=out) == encoded(name, 16000, blocks(pcm), out=out)
