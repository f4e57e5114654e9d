"""Exploration: every history of a workflow within bounds, each judged by the promises.

Owns nothing itself: the names of its parts.
"""
