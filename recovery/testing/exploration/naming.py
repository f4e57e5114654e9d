"""Naming: under which name a module has an object.

Owns the search for `module:name` of something that was handed over. Invariant: a name that is found leads back to the object; where none
leads to it, the name that is given says so by leading nowhere.
"""

from __future__ import annotations

import sys
from typing import Any, Final

NOWHERE: Final = "not_at_module_level"


def name_of(*objects: object, near: Any) -> str:
    """`module:name` of the first of these that the module of the function `near` has; else a name that leads nowhere."""
    module = str(getattr(near, "__module__", "") or "__main__")
    for there in objects:
        for name, value in vars(sys.modules.get(module, object)).items():
            if value is there and name.isidentifier():
                return f"{module}:{name}"
    return f"{module}:{NOWHERE}"


def found_by_name(text: str) -> bool:
    """Whether a scenario's text names only what another interpreter can import."""
    return NOWHERE not in text and "__main__:" not in text
