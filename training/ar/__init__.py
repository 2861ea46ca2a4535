"""Training of the dual autoregressive model (slow Falcon-H1 + fast transformer) with interleaved text."""
