"""Encoder of the first voice's codec: log-mel spectrum to residual codes.

It sees both sides of a frame and exists only to make training data; the decoder inside Kestrel is another network.
Parameter names are those of the checkpoint (``melcodec2_f16.pt``).
"""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

RATE, FRAME = 16000, 640
MEL_HOP, MEL_WINDOW, MELS = 160, 1024, 80
WIDTH, CODE_DIM = 256, 8
CODEBOOK_SIZES = (1024, 256, 256, 256)


def mel_filters() -> Tensor:
    """Triangular filters up to 8 kHz on the 2595 log10(1 + f / 700) scale, [80, 513]."""

    def mel(hertz: float) -> float:
        return 2595 * math.log10(1 + hertz / 700)

    edges = 700 * (10 ** (np.linspace(mel(0), mel(RATE / 2), MELS + 2) / 2595) - 1)
    bins = np.linspace(0, RATE / 2, MEL_WINDOW // 2 + 1)
    low, centre, high = edges[:-2, None], edges[1:-1, None], edges[2:, None]
    rising, falling = (bins - low) / (centre - low), (high - bins) / (high - centre)
    return torch.from_numpy(np.maximum(0, np.minimum(rising, falling)).astype(np.float32))


def log_mel(samples: Tensor) -> Tensor:
    """samples [B, N], N a multiple of 160 -> [B, 80, N / 160]; column k is centred on sample 160 k + 80."""
    margin = (MEL_WINDOW - MEL_HOP) // 2
    padded = F.pad(samples, (MEL_WINDOW // 2 - 80, margin))
    window = torch.hann_window(MEL_WINDOW, device=samples.device)
    spectrum = torch.stft(padded, MEL_WINDOW, MEL_HOP, MEL_WINDOW, window, center=False, return_complex=True)
    magnitude = torch.sqrt(spectrum.abs().square() + 1e-9)[..., : samples.shape[-1] // MEL_HOP]
    mel: Tensor = torch.log(torch.clamp(mel_filters().to(samples.device) @ magnitude, min=1e-4))
    return mel


class ConvNext(nn.Module):
    """Depthwise convolution, LayerNorm, two pointwise layers, scaled residual; sees both sides."""

    def __init__(self, width: int, expansion: int) -> None:
        super().__init__()
        self.dw = nn.Conv1d(width, width, 7, groups=width, padding=3)
        self.norm = nn.LayerNorm(width)
        self.p1 = nn.Linear(width, width * expansion)
        self.p2 = nn.Linear(width * expansion, width)
        self.g = nn.Parameter(torch.full((width,), 0.3))

    def forward(self, x: Tensor) -> Tensor:
        """x [B, width, T] -> same shape."""
        y = self.p2(F.gelu(self.p1(self.norm(self.dw(x).transpose(1, 2))))) * self.g
        out: Tensor = x + y.transpose(1, 2)
        return out


class MelEncoder(nn.Module):
    """[B, 80, 4 T] -> [B, T, 256]: two strided convolutions down to 25 frames a second."""

    def __init__(self) -> None:
        super().__init__()
        self.c1 = nn.Conv1d(MELS, 192, 4, stride=2, padding=1)
        self.b0 = ConvNext(192, 2)
        self.c2 = nn.Conv1d(192, WIDTH, 4, stride=2, padding=1)
        self.b = nn.Sequential(ConvNext(WIDTH, 3), ConvNext(WIDTH, 3))
        self.n = nn.Linear(WIDTH, WIDTH)

    def forward(self, mel: Tensor) -> Tensor:
        x = self.b0(F.gelu(self.c1((mel + 4) / 3)))
        x = self.b(self.c2(x))
        y: Tensor = self.n(x.transpose(1, 2))
        return y


class Codebook(nn.Module):
    """One quantiser: projection to 8 dimensions, nearest row (Euclidean), projection back."""

    cb: Tensor

    def __init__(self, size: int) -> None:
        super().__init__()
        self.inp = nn.Linear(WIDTH, CODE_DIM)
        self.out = nn.Linear(CODE_DIM, WIDTH)
        self.register_buffer("cb", torch.zeros(size, CODE_DIM))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """x [B, T, 256] -> codes [B, T] and what they stand for [B, T, 256]."""
        e = self.inp(x)
        distance = e.square().sum(-1, keepdim=True) - 2 * e @ self.cb.t() + self.cb.square().sum(1)
        codes = distance.argmin(-1)
        return codes, self.out(self.cb[codes])


class Quantiser(nn.Module):
    """Codebooks one after the other, each on what the ones before left over."""

    def __init__(self) -> None:
        super().__init__()
        self.q = nn.ModuleList(Codebook(size) for size in CODEBOOK_SIZES)

    def forward(self, x: Tensor) -> Tensor:
        """x [B, T, 256] -> codes [B, T, codebooks]."""
        codes = []
        for book in self.q:
            code, value = book(x)
            x = x - value
            codes.append(code)
        return torch.stack(codes, -1)


class Encoder(nn.Module):
    """Samples to codes."""

    def __init__(self) -> None:
        super().__init__()
        self.enc = MelEncoder()
        self.rvq = Quantiser()

    @classmethod
    def load(cls, path: Path) -> Encoder:
        """Read the study's checkpoint; its other parts (decoder trunk, heads, training statistics) are ignored.

        Raises RuntimeError naming the missing parameters.
        """
        model = cls()
        state = torch.load(path, map_location="cpu", weights_only=True)
        wanted = model.state_dict()
        model.load_state_dict({name: value.float() for name, value in state.items() if name in wanted})
        return model.eval()

    @torch.no_grad()
    def encode(self, samples: NDArray[np.float32]) -> NDArray[np.int16]:
        """Mono samples [N] -> codes [ceil(N / 640), codebooks]; the last frame is filled up with silence."""
        padded = np.pad(samples, (0, -len(samples) % FRAME))
        codes: Tensor = self.rvq(self.enc(log_mel(torch.from_numpy(padded)[None])))
        return codes[0].numpy().astype(np.int16)
