"""WAV headers: sizes that lie make strict readers cut or refuse a file."""

from __future__ import annotations

import io
import wave

import numpy as np
import pytest
import soundfile
from hypothesis import given
from hypothesis import strategies as st

from kestrel.service.containers import UNKNOWN_SIZE, container, wav_header


@given(st.integers(0, 3000), st.sampled_from([8000, 16000, 24000, 44100, 48000]))
def test_exact_wav_is_read_by_two_strict_readers(samples: int, rate: int) -> None:
    """Catches wrong sizes, rates or block alignment: Python's wave and libsndfile must give the samples back."""
    pcm = np.random.default_rng(samples).integers(-32768, 32768, samples).astype(np.int16)
    wav = container("wav", rate)
    data = wav.header(samples) + wav.block(pcm)
    with wave.open(io.BytesIO(data)) as reader:
        assert (reader.getframerate(), reader.getnchannels(), reader.getsampwidth()) == (rate, 1, 2)
        assert reader.getnframes() == samples
        assert reader.readframes(samples) == pcm.tobytes()
    decoded, decoded_rate = soundfile.read(io.BytesIO(data), dtype="int16")
    assert decoded_rate == rate
    assert np.array_equal(decoded, pcm)


def test_streamed_wav_says_unknown_in_both_fields() -> None:
    """A zero or short size makes players stop at once."""
    header = wav_header(16000, None)
    assert len(header) == 44
    assert int.from_bytes(header[4:8], "little") == int.from_bytes(header[40:44], "little") == UNKNOWN_SIZE
    pcm = np.arange(1000, dtype=np.int16)
    decoded, _ = soundfile.read(io.BytesIO(header + pcm.tobytes()), dtype="int16")
    assert np.array_equal(decoded, pcm)


def test_audio_too_long_for_wav_is_refused() -> None:
    """A wrapped 32-bit size would give a valid-looking header of a few seconds."""
    with pytest.raises(ValueError, match="at most"):
        wav_header(16000, 1 << 31)
