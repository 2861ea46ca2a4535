"""The teacher speaks the corpus: 16 kHz audio with phonemes and durations."""
