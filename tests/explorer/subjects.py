"""Subjects of exploration: small workflows, one for each class of contract."""

from __future__ import annotations

from typing import Any

from recovery.testing import Scenario

CONTRACTS: dict[str, dict[str, Any]] = {
    "keyed": {"contract": "keyed", "window": "24h"},
    "closing": {"contract": "keyed", "window": "24h", "close": True, "lookup": {}},
    "probeable": {"contract": "probeable"},
    "trusting": {"contract": "probeable", "trust_settle": True},
    "opaque": {"contract": "opaque"},
}


def subject(contract: str, *, effects: int = 2) -> Scenario:
    """One decision and so many effects under a contract. With two and `keyed`: the canonical workflow."""
    wanted = [("$plan", "first"), ({"sku": "B", "qty": 1}, "second")][:effects]
    performed = [{"perform": "reserve", "with": given, "key": f"key-{name}", "as": name} for given, name in wanted]
    return Scenario.model_validate(
        {
            "scenario": "explored",
            "name": f"explored, {contract}",
            "story": "One decision, then what it decided on, explored.",
            "environment": {"stock": {"A": 10, "B": 5}, "effects": {"reserve": CONTRACTS[contract]}},
            "workflow": [{"decide": "plan", "value": {"sku": "A", "qty": 2}}, *performed, {"return": f"${wanted[-1][1]}"}],
            "timeline": [{"run": "A"}],
            "expect": {},
        }
    )
