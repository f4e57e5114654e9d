"""An inventory service that keeps receipts, its client, and how to start it: the environment of the demo and of the tests.

`stock` is the domain and its tables, `service` its HTTP face, `client` what a worker calls it with, `process` starts and stops it as
a process of its own, and `python -m recovery.examples.inventory --help` runs it.
"""
