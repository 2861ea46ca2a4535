"""Engine micro-benchmarks: ratios and medians of interleaved runs, since a shared machine's absolute times mean little."""
