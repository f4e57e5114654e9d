"""What the inventory does: stock, reservations, and a count of what was really executed. No HTTP, no receipts.

Owns the tables. Invariant: a reservation and the units that it took are one transaction, the caller's; so is the row in `execution`,
which is how tests judge "once" without trusting receipts.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

metadata = sa.MetaData()

stock = sa.Table(
    "stock",
    metadata,
    sa.Column("sku", sa.String(64), primary_key=True),
    sa.Column("units", sa.Integer, sa.CheckConstraint("units >= 0"), nullable=False),
)
reservation = sa.Table(
    "reservation",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("sku", sa.String(64), nullable=False),
    sa.Column("units", sa.Integer, nullable=False),
    sa.Column("released", sa.Boolean, nullable=False, default=False),
)
execution = sa.Table(
    "execution",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("key", sa.String(255), nullable=False, index=True),
)


class OutOfStock(Exception):
    name = "out_of_stock"

    def __init__(self, sku: str, units: int) -> None:
        super().__init__(f"{units} units of {sku} are not in stock")
        self.sku = sku
        self.units = units


class NoSuchReservation(Exception):
    name = "no_such_reservation"

    def __init__(self, id: str) -> None:
        super().__init__(f"there is no reservation {id}")
        self.id = id


def reserve(connection: sa.Connection, key: str, sku: str, units: int) -> dict[str, Any]:
    """Take units out of stock. Raises OutOfStock."""
    taken = sa.update(stock).where(stock.c.sku == sku, stock.c.units >= units).values(units=stock.c.units - units)
    if connection.execute(taken).rowcount != 1:
        raise OutOfStock(sku, units)
    number = connection.execute(sa.insert(reservation).values(sku=sku, units=units).returning(reservation.c.id)).scalar_one()
    connection.execute(sa.insert(execution).values(key=key))
    return {"id": str(number), "sku": sku, "units": units}


def release(connection: sa.Connection, key: str, id: str) -> dict[str, Any]:
    """Put a reservation's units back, once whatever the number of keys. Raises NoSuchReservation."""
    number = int(id) if id.isascii() and id.isdecimal() and len(id) < 10 else 0
    found = connection.execute(sa.select(reservation).where(reservation.c.id == number).with_for_update()).one_or_none()
    if found is None:
        raise NoSuchReservation(id)
    if not found.released:
        connection.execute(sa.update(reservation).where(reservation.c.id == number).values(released=True))
        connection.execute(sa.update(stock).where(stock.c.sku == found.sku).values(units=stock.c.units + found.units))
        connection.execute(sa.insert(execution).values(key=key))
    return {"id": id, "released": True}


def in_stock(connection: sa.Connection, sku: str) -> int:
    return connection.execute(sa.select(stock.c.units).where(stock.c.sku == sku)).scalar_one_or_none() or 0


def executions(connection: sa.Connection, key: str) -> int:
    """How many effects were really executed, and not rolled back, under a key."""
    counted = sa.select(sa.func.count()).select_from(execution).where(execution.c.key == key)
    return connection.execute(counted).scalar_one()


def seed(connection: sa.Connection, units: dict[str, int]) -> None:
    """Put articles into stock that are not there yet; a restart does not fill the shelves again."""
    there = set(connection.execute(sa.select(stock.c.sku)).scalars())
    for sku in sorted(units.keys() - there):
        connection.execute(sa.insert(stock).values(sku=sku, units=units[sku]))
