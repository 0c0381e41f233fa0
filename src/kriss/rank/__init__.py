"""Rank: candidates for a mention, what speaks for each, and which one it is."""
