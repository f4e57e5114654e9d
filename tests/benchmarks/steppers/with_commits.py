"""The floor: two commits for each step, one row each, with power-loss durability on, and nothing else."""

import sqlite3

import turns

CONTENT = b"-" * 200  # bytes of a row


def committing():
    if turns.URL:
        import psycopg

        connection = psycopg.connect(turns.URL, autocommit=True)
        connection.execute("CREATE TABLE IF NOT EXISTS raw (number BIGSERIAL PRIMARY KEY, content BYTEA)")
        return lambda: connection.execute("INSERT INTO raw (content) VALUES (%s)", (CONTENT,))
    connection = sqlite3.connect(turns.sqlite("raw.db"), isolation_level=None)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute("CREATE TABLE IF NOT EXISTS raw (number INTEGER PRIMARY KEY, content BLOB)")
    return lambda: connection.execute("INSERT INTO raw (content) VALUES (?)", (CONTENT,))


commit = committing()


def sequential(runs, steps):
    for _ in range(runs * steps * 2):
        commit()


turns.serve(sequential=sequential)
