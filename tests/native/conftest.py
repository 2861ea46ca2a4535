"""Small models for the parity tests, written and converted once a run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pytest
import torch

from kestrel.engine.convert import Types, convert_checkpoint
from tests.native.harness import Native
from tests.reference.checkpoint import write_checkpoint
from tests.reference.dims import PRESETS
from tests.reference.model import Reference
from tests.reference.published import from_checkpoint

F32 = Types("f32", "f32", "f32")


@dataclass(frozen=True)
class Pair:
    """The same random model in both implementations."""

    checkpoint: Path
    model_file: Path

    @cached_property
    def native(self) -> Native:
        return Native(self.model_file)

    @cached_property
    def reference(self) -> Reference:
        return Reference(from_checkpoint(self.checkpoint))

    def prompt(self, length: int, seed: int = 0) -> torch.Tensor:
        """Columns [1 + codebooks, length] of text mixed with frames of codes, as a cloning prompt has them; codes at
        text positions must have no effect, so some are not zero."""
        c, generator = self.reference.config, torch.Generator().manual_seed(1000 * length + seed)
        text = torch.randint(0, c.semantic_begin, (length,), generator=generator)
        codes = torch.randint(0, c.semantic_size, (len(c.codebook_sizes), length), generator=generator)
        spoken = torch.rand(length, generator=generator) < 0.5
        ids = torch.where(spoken, c.semantic_begin + codes[0], text)
        return torch.cat([ids[None], codes])


class Models:
    """Pairs by preset name."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._pairs: dict[str, Pair] = {}

    def __getitem__(self, preset: str) -> Pair:
        if preset not in self._pairs:
            source = write_checkpoint(self._folder / preset, PRESETS[preset])
            convert_checkpoint(source, self._folder / f"{preset}.gguf", types=F32)
            self._pairs[preset] = Pair(source, self._folder / f"{preset}.gguf")
        return self._pairs[preset]

    def close(self) -> None:
        for pair in self._pairs.values():
            if "native" in pair.__dict__:
                pair.native.close()


@pytest.fixture(scope="session")
def models(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Models]:
    torch.set_num_threads(1)
    pairs = Models(tmp_path_factory.mktemp("models"))
    yield pairs
    pairs.close()


@pytest.fixture(scope="session")
def tiny(models: Models) -> Pair:
    return models["tiny"]
