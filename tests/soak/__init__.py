"""Random plays with real processes, killed and stopped by real signals: `python -m tests.soak`, `make soak`."""
