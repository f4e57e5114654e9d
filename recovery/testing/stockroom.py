"""The stockroom: what there is, what is held, and the taking of it, with each taking and each refusal in the ledger.

Owns quantities and the ids of receipts. Knows no keys beyond their names in the ledger. Invariant: nothing is taken that is not there, and what
the ledger says was done is exactly what was taken.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from recovery.testing.knobs import OutOfStock, Value
from recovery.testing.ledger import Declined, Executed, Ledger


@dataclass(slots=True)
class Stockroom:
    """Quantities by name. Not locked: the warehouse does that."""

    ledger: Ledger
    stock: dict[str, int]
    held: dict[str, int] = field(default_factory=dict)  # by the name under which it is held
    made: int = 0

    def add(self, more: Mapping[str, int]) -> None:
        for sku, quantity in more.items():
            self.stock[sku] = self.stock.get(sku, 0) + quantity

    def hold(self, name: str, sku: str, quantity: int) -> bool:
        """Set stock aside under a name, once; whether it was set aside now."""
        if name in self.held or self.stock.get(sku, 0) < quantity:
            return False
        self.stock[sku] -= quantity
        self.held[name] = quantity
        return True

    def take(self, key: str, wanted: Mapping[str, Any], now_us: int) -> Value | OutOfStock:
        """Take `qty` of `sku`, what is held under `key` included, or say no. What names an `outcome` undoes it: `qty` comes back."""
        sku, quantity = wanted["sku"], -wanted["qty"] if "outcome" in wanted else wanted["qty"]
        there = self.stock.get(sku, 0) + self.held.pop(key, 0)
        if there < quantity:
            return self._declined(key, sku, there, now_us)
        self.stock[sku] = there - quantity
        return self._done(key, wanted, {"sku": sku, "qty": quantity}, now_us)

    def take_all(self, key: str, wanted: Mapping[str, Any], now_us: int) -> Value | OutOfStock:
        """Take all `items` or none."""
        items: list[dict[str, Any]] = list(wanted["items"])
        for item in items:
            if (there := self.stock.get(item["sku"], 0)) < item["qty"]:
                return self._declined(key, item["sku"], there, now_us)
        for item in items:
            self.stock[item["sku"]] -= item["qty"]
        return self._done(key, wanted, {"items": items}, now_us)

    def _declined(self, key: str, sku: str, there: int, now_us: int) -> OutOfStock:
        refusal = OutOfStock(sku=sku, available=there)
        declined = Declined(at_us=now_us, key=key, error=refusal.name, value={"sku": sku, "available": there})
        self.ledger.add(declined, "environment", f"declines {key}: {refusal}")
        return refusal

    def _done(self, key: str, wanted: Mapping[str, Any], value: Value, now_us: int) -> Value:
        self.made += 1
        value = {"receipt": f"R{self.made}", **value}
        done = Executed(at_us=now_us, key=key, arguments=dict(wanted), value=value)
        self.ledger.add(done, "environment", f"does {key}: {value['receipt']}; left {self.stock}")
        return dict(value)
