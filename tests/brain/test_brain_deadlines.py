"""One effective deadline, or one clear error."""

import math
from typing import Any

import pytest

from hereabouts.brain.deadlines import Budget, effective_budget
from hereabouts.schemas.errors import InvalidRequest


@pytest.mark.parametrize(
    ("tool", "wish", "budget"),
    [
        ("location_get", None, Budget(5_000)),
        ("page_title", None, Budget(10_000)),
        ("location_get", 500, Budget(500)),
        ("location_get", 500.99, Budget(500)),
        ("location_get", 12_000, Budget(12_000)),
        ("location_get", 29_000, Budget(29_000)),
        ("location_get", 29_000.5, Budget(29_000, capped=True)),
        ("location_get", 2**31, Budget(29_000, capped=True)),
        ("location_get", 10**400, Budget(29_000, capped=True)),
        ("location_get", 1e300, Budget(29_000, capped=True)),
    ],
)
def test_a_budget(tool: str, wish: Any, budget: Budget) -> None:
    assert effective_budget(tool, wish) == budget


@pytest.mark.parametrize(
    "wish", [0, 1, 499.9, -1, 0.5, -0.0, math.nan, math.inf, -math.inf, "5000", True, False, [], {}, -(10**400)]
)
def test_no_budget(wish: Any) -> None:
    with pytest.raises(InvalidRequest) as caught:
        effective_budget("location_get", wish)
    assert "timeout_ms" in str(caught.value)


def test_a_tenants_cap_holds_for_defaults_and_never_lifts_the_systems() -> None:
    assert effective_budget("page_title", None, cap_ms=3_000) == Budget(3_000)
    assert effective_budget("page_title", 4_000, cap_ms=3_000) == Budget(3_000, capped=True)
    assert effective_budget("page_title", 60_000, cap_ms=90_000) == Budget(29_000, capped=True)
