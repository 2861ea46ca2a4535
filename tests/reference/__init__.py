"""Independent reference of the whole model, written from its description: checkpoints, PyTorch stages, sampler."""
