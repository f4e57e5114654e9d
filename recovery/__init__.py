"""Recovery: after a crash, return the original outcome without repeating the effect, or say *in doubt*."""

__version__ = "0.1.0"
