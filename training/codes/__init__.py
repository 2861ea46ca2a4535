"""Codes of the teacher's audio: what the AR model learns to predict."""
