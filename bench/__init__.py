"""Engine micro-benchmarks. They report ratios and medians of interleaved runs: absolute times mean little on a shared machine."""
