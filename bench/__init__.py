"""Engine micro-benchmarks: ratios and medians of interleaved runs; a shared machine's absolute times mean little."""
