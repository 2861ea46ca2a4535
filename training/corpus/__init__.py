"""Texts for the teacher to speak, from free sources and an own grammar of everyday sentences."""
