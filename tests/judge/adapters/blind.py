"""A program that is wrong on purpose: it tries again until it has a reply, and records nothing."""

import customer

while True:
    try:
        customer.outcome(customer.reserve(None))
        break
    except (OSError, customer.InFlight):
        continue
