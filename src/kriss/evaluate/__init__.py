"""Scoring: how often a linker is right, counted so that nobody is flattered."""
