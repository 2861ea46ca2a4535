"""A model that overflows on one text."""

from __future__ import annotations

from pathlib import Path

import gguf
import numpy as np
import pytest
import torch

from kestrel.engine.convert import Types, convert_checkpoint
from tests.native.harness import Native
from tests.reference.checkpoint import write_checkpoint
from tests.reference.dims import PRESETS

SEMANTIC, CODE = 5, 7  # a frame of this semantic token whose second code is CODE overflows


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small model with two embedding rows that are finite and whose sum is not."""
    folder = tmp_path_factory.mktemp("overflow")
    source = write_checkpoint(folder / "checkpoint", PRESETS["tiny"])
    target = folder / "model.gguf"
    convert_checkpoint(source, target, types=Types("f32", "f32", "f32"))
    tensors = {t.name: t for t in gguf.GGUFReader(target).tensors}
    first = PRESETS["tiny"].text_vocab  # id of semantic code 0
    second = PRESETS["tiny"].semantic_size  # first row of codebook 1
    for name, row in (("embed_tokens.weight", first + SEMANTIC), ("codebook_embeddings.weight", second + CODE)):
        tensor = tensors[name]
        table = np.memmap(target, np.float32, "r+", int(tensor.data_offset), tuple(tensor.data.shape))
        table[row] = 3e38
        table.flush()
    return target


def test_only_the_overflowing_utterance_ends(model: Path) -> None:
    """Catches a NaN that fails the whole step, an argmax over NaN that goes on speaking, and state that leaks into a
    neighbour or into the next utterance in the same slot."""
    native = Native(model, slots=2)
    good = torch.randint(6, 30, (1 + native.info.n_codebooks, 7), generator=torch.Generator().manual_seed(1))
    bad = good.clone()
    bad[:3, 3] = torch.tensor([native.info.semantic_begin + SEMANTIC, SEMANTIC, CODE])
    with native.session(good, max_frames=6, decode=True) as alone:
        native.run(alone)
        expected = alone.read()
    first, second = native.open(bad, max_frames=6), native.open(good, max_frames=6, decode=True)
    while second.finish == "running":
        native.step(first, second)
    assert first.finish == "numeric"
    assert first.status.frames == 0
    assert np.array_equal(second.read(), expected)
    first.close()
    with native.session(good, max_frames=6, decode=True) as after:  # takes the slot the poisoned one had
        native.run(after)
        assert np.array_equal(after.read(), expected)
    second.close()
    native.close()
