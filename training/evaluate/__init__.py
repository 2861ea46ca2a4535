"""Evaluation of a finished voice through the real engine: speak lists of sentences, have them transcribed, count."""
