"""Console: what people see, as functions from plain values.

Owns wording and layout. Knows no command line, opens no database, decides nothing. Invariant: text that came out of a journal is shown
as text, whatever characters it holds, and never longer than it was allowed to be.
"""
