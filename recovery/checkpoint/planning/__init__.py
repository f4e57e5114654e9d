"""Planning: how often to save, from what a save costs and how often something fails.

`interval` is the closed form, `simulation` plays a log of failures, `measuring` asks a directory for its bandwidth. Needs no extra but for plots.
"""
