"""The training loop: resuming, the schedule, and that every weight is trained."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from training.ar import checkpoint
from training.ar.batch import collate
from training.ar.config import Config, load_config
from training.ar.layers import Mamba
from training.ar.loss import batch_losses, disturb
from training.ar.model import DualAr
from training.ar.schedule import Decay, rate_factor
from training.ar.stream import Utterance, build_stream
from training.ar.train import Trainer


@pytest.fixture(autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)


def test_resumed_run_equals_uninterrupted_run(tiny: Config, utterances: list[Utterance], tmp_path: Path) -> None:
    """Catches any state left out of the checkpoint: optimiser moments, step counter, either random generator."""
    straight = Trainer(tiny, utterances[:1], utterances)
    straight.decay = Decay(2, 6)
    rows = [straight.step() for _ in range(6)]

    first = Trainer(tiny, utterances[:1], utterances)
    first.decay = Decay(2, 6)
    for _ in range(3):
        first.step()
    checkpoint.save(tmp_path, first.steps, first.state_dict(), keep=2)
    found = checkpoint.newest(tmp_path)
    assert found is not None
    second = Trainer(tiny, utterances[:1], utterances)
    second.load_state_dict(checkpoint.load(found))
    assert [second.step() for _ in range(3)] == rows[3:]
    for a, b in zip(straight.model.parameters(), second.model.parameters(), strict=True):
        assert torch.equal(a, b)


def test_every_parameter_is_trained(tiny: Config, utterances: list[Utterance]) -> None:
    """Catches an optimiser that is created but never stepped, which left all layers of an early study frozen."""
    trainer = Trainer(tiny, utterances[:1], utterances)
    before = {name: p.detach().clone() for name, p in trainer.model.named_parameters()}
    losses = [trainer.step() for _ in range(40)]
    frozen = [name for name, p in trainer.model.named_parameters() if torch.equal(p, before[name])]
    assert frozen == []
    assert losses[-1]["semantic"] < 0.8 * losses[0]["semantic"]
    assert losses[-1]["align"] < losses[0]["align"]


def test_old_checkpoints_are_deleted_and_partial_ones_ignored(tmp_path: Path) -> None:
    """Catches a full disk, and resuming from a file whose writing was interrupted."""
    for step in (5, 20, 100):
        checkpoint.save(tmp_path, step, {"steps": step}, keep=2)
    (tmp_path / "step-0000999.partial").write_bytes(b"half")
    found = checkpoint.newest(tmp_path)
    assert found is not None
    assert checkpoint.load(found) == {"steps": 100}
    assert len(checkpoint.checkpoints(tmp_path)) == 2


def test_schedule_warms_up_stays_and_decays() -> None:
    """Catches a decay that starts early, jumps, or ends at zero before its last step."""
    assert rate_factor(1, 10, None, 0.03) == pytest.approx(0.1)
    assert rate_factor(10_000, 10, None, 0.03) == 1
    decay = Decay(100, 50)
    factors = [rate_factor(s, 10, decay, 0.03) for s in range(100, 151)]
    assert factors[0] == 1
    assert factors[-1] == pytest.approx(0.03)
    assert np.allclose(np.diff(factors), -0.97 / 50)


def test_mamba_quadratic_form_equals_recurrence(tiny: Config) -> None:
    """Catches a training form that differs from the step the engine runs (decay off by one, wrong mask)."""
    torch.manual_seed(0)
    c = tiny.model
    mixer = Mamba(c.dim, c.ssm_inner, c.ssm_heads, c.ssm_state, c.ssm_conv)
    x = torch.randn(1, 9, c.dim)
    z, xbc, dt = torch.split(mixer.in_proj(x)[0], [c.ssm_inner, c.ssm_inner + 2 * c.ssm_state, c.ssm_heads], -1)
    window = torch.zeros(c.ssm_conv, xbc.shape[1])
    bias = mixer.conv1d.bias
    assert bias is not None
    state = torch.zeros(c.ssm_heads, c.ssm_inner // c.ssm_heads, c.ssm_state)
    outputs = []
    for t in range(9):
        window = torch.cat([window[1:], xbc[t : t + 1]])
        mixed = torch.nn.functional.silu((window.T * mixer.conv1d.weight[:, 0]).sum(1) + bias)
        u, b, k = torch.split(mixed, [c.ssm_inner, c.ssm_state, c.ssm_state])
        u = u.view(c.ssm_heads, -1)
        step = torch.nn.functional.softplus(dt[t] + mixer.dt_bias)
        state = state * torch.exp(-step * mixer.A_log.exp())[:, None, None] + (step[:, None] * u)[..., None] * b
        y = state @ k + mixer.D[:, None] * u
        outputs.append(mixer.out_proj(y.flatten() * torch.nn.functional.silu(z[t])))
    torch.testing.assert_close(mixer(x)[0], torch.stack(outputs), atol=1e-5, rtol=1e-5)


def test_predictions_do_not_see_the_future_or_the_padding(tiny: Config, utterances: list[Utterance]) -> None:
    """Catches a leaking mask: teacher-forced losses would look excellent and speech would be noise."""
    torch.manual_seed(0)
    model = DualAr(tiny.model)
    rows = (torch.tensor([0]), torch.tensor([1]))
    x = torch.randn(1, 12, tiny.model.dim)
    changed = x.clone()
    changed[:, 7:] += 1
    a, b = model.slow(x, rows)[0], model.slow(changed, rows)[0]
    torch.testing.assert_close(a[:, :7], b[:, :7])
    assert not torch.allclose(a[:, 7], b[:, 7])

    streams = [build_stream(u, np.zeros(len(u.words), bool), model.next, model.eos) for u in utterances]
    alone = [batch_losses(model, collate([s], model.eos), None) for s in streams]
    together = batch_losses(model, collate(streams, model.eos), None)
    counts = torch.tensor([float((s.targets >= 0).sum()) for s in streams])
    mean = (torch.stack([row.semantic for row in alone]) * counts).sum() / counts.sum()
    torch.testing.assert_close(together.semantic, mean)


def test_disturbance_touches_only_past_frames(tiny: Config, utterances: list[Utterance]) -> None:
    """Catches noise in the text or in the targets, and rates far from those configured."""
    codes = torch.arange(3000).view(10, 100, 3)
    is_frame = torch.zeros(10, 100, dtype=torch.bool)
    is_frame[:, 10:] = True
    seen, keep = disturb(codes, is_frame, tiny.data, torch.Generator().manual_seed(0))
    assert torch.equal(seen[~is_frame], codes[~is_frame])
    first = (seen[..., 0] != codes[..., 0])[is_frame].float().mean()
    late = (seen[..., 1] != codes[..., 1])[is_frame].float().mean()
    dropped = 1 - keep[is_frame].mean()
    assert 0.05 < first < 0.11
    assert 0.10 < late < 0.18
    assert 0.03 < dropped < 0.07


def test_misspelt_key_is_refused(tmp_path: Path) -> None:
    """Catches hours of training with a default in place of the intended value."""
    path = tmp_path / "bad.toml"
    path.write_text("[optimiser]\nlearning_rate = 1\n")
    with pytest.raises(ValueError, match=r"learning_rate.*valid.*muon_rate"):
        load_config(path)
    path.write_text("[optimizer]\n")
    with pytest.raises(ValueError, match=r"optimizer.*valid.*optimiser"):
        load_config(path)
