"""Drivers: the two short loops that carry out operations, one for `def` and one for `async def`."""
