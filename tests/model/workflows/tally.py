"""Tally: what was in the histories that were compared, and how often somebody was killed in them. Knows nothing of what they came to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field


@dataclass(slots=True)
class Tally:
    """Counts of histories."""

    histories: int = 0
    kills: int = 0
    features: Counter[str] = field(default_factory=Counter)

    def add(self, features: Iterable[str], kills: int) -> None:
        self.histories += 1
        self.kills += kills
        self.features.update(features)

    def share(self, feature: str) -> float:
        return self.features[feature] / self.histories if self.histories else 0.0

    def told(self, features: Iterable[str]) -> str:
        """For people: the share of each feature, and the kills."""
        lines = [f"{self.histories:,} histories, {self.kills / max(1, self.histories):.2f} kills in each"]
        return "\n".join([*lines, *(f"{feature:18} {self.share(feature):6.1%}" for feature in features)])
