"""Readers of the benchmarks, each in the form in which its owners ship it."""
