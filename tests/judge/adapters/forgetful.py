"""A program that is wrong on purpose: whatever it does not know, it calls not done, and says so as an outcome of its own making."""

import customer

try:
    customer.outcome(customer.reserve(customer.KEY))
except (OSError, customer.InFlight):
    customer.outcome({"id": "R0", "units": customer.UNITS})
