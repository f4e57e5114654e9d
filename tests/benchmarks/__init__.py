"""Benchmarks: off by default, run by `make`, with an environment of their own for the peers."""
