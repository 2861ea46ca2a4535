"""The encoder of the first codec: its parts against plain formulas, and a line's frames against its durations."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from training.codes.__main__ import encode_line
from training.codes.encoder import FRAME, MELS, Codebook, Encoder, log_mel


def test_mel_columns_follow_the_sound() -> None:
    """Catches a spectrum that is late or early against the samples, and filters at wrong frequencies."""
    time = torch.arange(3200) / 16000
    tone = torch.where(time < 0.1, 0.0, torch.sin(2 * torch.pi * 1000 * time))[None]
    mel = log_mel(tone)
    assert mel.shape == (1, MELS, 20)
    loud = mel[0].max(0).values
    # Silent until the window (32 ms to either side) reaches 100 ms; column 10 is centred on 105 ms.
    assert (loud[:6] < -7).all()
    assert (loud[10:16] > 3).all()
    peak = int(mel[0, :, 15].argmax())
    mels = np.linspace(0, 2595 * np.log10(1 + 8000 / 700), MELS + 2)[1:-1]
    assert abs(700 * (10 ** (mels[peak] / 2595) - 1) - 1000) < 60


def test_codes_are_nearest_rows() -> None:
    """Catches a distance with a missing term, which still gives plausible codes."""
    torch.manual_seed(0)
    book = Codebook(32)
    book.cb = torch.randn(32, 8) * torch.linspace(0.2, 3, 32)[:, None]
    x = torch.randn(1, 50, 256)
    codes, value = book(x)
    expected = torch.cdist(book.inp(x[0]), book.cb).argmin(-1)
    assert torch.equal(codes[0], expected)
    torch.testing.assert_close(value[0], book.out(book.cb[expected]))


def test_frames_count_from_the_uncut_start() -> None:
    """Catches labels shifted by the silence that synthesis cut off."""
    torch.manual_seed(0)
    encoder = Encoder().eval()
    entry: dict[str, Any] = {"text": "A.", "phonemes": "ˈA.", "durations": [10, 2, 4, 2, 1], "lead_frames": 5}
    text, phonemes, durations, codes = encode_line(encoder, entry, np.ones(3 * FRAME - 7, np.int16) * 3000)
    assert (text, phonemes, list(durations)) == ("A.", "ˈA.", [10, 2, 4, 2, 1])
    assert codes.shape == (5 + 3, 4)
    assert codes.max() < 1024
    assert codes[:, 1:].max() < 256
