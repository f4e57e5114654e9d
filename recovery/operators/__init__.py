"""Operators: what a person may ask and order about runs in doubt, as procedures over operations.

Owns the verbs behind `recover doubt`, `explain`, `probe`, `redrive`, `resolve`, `close`, `hold`, `release`, `fence`, `forget` and `--plan`.
Knows no engine and no command line. Invariants: no verb makes a new key, and none sends anything that the verdict table does not license;
every order is an entry of the journal that says by whom and why, durable before it has any effect.
"""
