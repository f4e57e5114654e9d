"""Standard subjects: small workflows over environments that cover the classes of contracts, in the order in which they are explored.

Owns what a bug in the engine is looked for in. Knows no bugs. Invariant: none has more in it than its story needs, since every part is explored
in every history.
"""

from __future__ import annotations

from typing import Final

import yaml

from recovery.testing import Scenario
from recovery.testing.loading import parse

_SAID: Final = """
short:
  story: A key is remembered for twice as long as a copy may take to act.
  window: 128s
  effects: {reserve: {contract: keyed, window: 128s, settle_window: 30s}}
  workflow:
    - {perform: reserve, with: {sku: A, qty: 2}, key: k1}
    - return: $reserve

forgetful:
  story: Successes are remembered under the key and rejections are not, and there is too little at first.
  stock: {A: 1}
  window: 24h
  remembers: [success]
  effects: {reserve: {contract: keyed, window: 24h, remembers_rejections: false}}
  workflow:
    - {attempt: reserve, with: {sku: A, qty: 2}, key: k1}
    - return: $reserve

probeable:
  story: It can be looked up, there is no key, and the settle window is trusted; one question is all there is.
  effects: {reserve: {contract: probeable, trust_settle: true}}
  budget: {probes: 1}
  workflow:
    - {perform: reserve, with: {sku: A, qty: 2}, key: k1}
    - return: $reserve

fenced:
  story: It can be looked up, and the environment refuses epochs older than the newest it was sent.
  enforces: epoch
  effects: {reserve: {contract: probeable, enforced: epoch}}
  workflow:
    - {perform: reserve, with: {sku: A, qty: 2}, key: k1}
    - return: $reserve

closable:
  story: A key can be closed, and the effect is wanted for an hour only.
  window: 24h
  effects: {reserve: {contract: keyed, window: 24h, close: true, lookup: {}, valid_for: 1h}}
  workflow:
    - {perform: reserve, with: {sku: A, qty: 2}, key: k1}
    - return: $reserve

named:
  story: The object that is made carries the key as its name, and users can see and remove it.
  effects: {reserve: {contract: named, lookup: {deletion: visible}}}
  workflow:
    - {perform: reserve, with: {sku: A, qty: 2}, key: k1}
    - return: $reserve

opaque:
  story: Nothing can be asked. The workflow catches every exception and goes on.
  effects: {reserve: {contract: opaque}}
  workflow:
    - try: [{perform: reserve, with: {sku: A, qty: 2}, key: k1}]
      except: []
    - {perform: reserve, with: {sku: A, qty: 1}, key: k2}
    - return: done

keyed:
  story: A decision, and two effects whose keys the environment remembers for a day. The canonical workflow.
  window: 24h
  effects: {reserve: {contract: keyed, window: 24h}}
  workflow:
    - {decide: plan, values: [{sku: A, qty: 2}, {sku: A, qty: 3}]}
    - {perform: reserve, with: $plan, key: k1}
    - {perform: reserve, with: {sku: A, qty: 1}, key: k2}
    - return: done

riding:
  story: The canonical workflow, in engines whose outcomes ride on the run's next commit.
  window: 24h
  riding: true
  effects: {reserve: {contract: keyed, window: 24h}}
  workflow:
    - {decide: plan, values: [{sku: A, qty: 2}, {sku: A, qty: 3}]}
    - {perform: reserve, with: $plan, key: k1}
    - {perform: reserve, with: {sku: A, qty: 1}, key: k2}
    - return: done
"""

_OUTSIDE: Final = {"window", "stock", "remembers", "enforces", "effects"}


def _scenario(name: str, said: dict[str, object]) -> Scenario:
    environment = {"stock": {"A": 10}, **{field: value for field, value in said.items() if field in _OUTSIDE}}
    rest = {field: value for field, value in said.items() if field not in _OUTSIDE}
    whole = {"scenario": name, "name": name, "environment": environment, "timeline": [{"run": "A"}], "expect": {}, **rest}
    [scenario] = parse(yaml.safe_dump(whole), f"subject {name}")
    return scenario


SUBJECTS: Final = tuple(_scenario(name, said) for name, said in yaml.safe_load(_SAID).items())
