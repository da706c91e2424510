"""When to try again."""

import os
from pathlib import Path

import pytest

from hereabouts.node.grants import LoginSession
from hereabouts.node.reconnect import Backoff, is_final
from hereabouts.schemas import node_wire as wire


def error(code: str | None, **more: object) -> wire.Error:
    return wire.Error(code="X", message="m", details={"code": code}, **more)  # type: ignore[arg-type]


def test_delays_double_to_a_cap_and_start_again_after_a_connection_that_lasted() -> None:
    backoff = Backoff(jitter=lambda: 1.0)

    assert [backoff.next_ms() for _ in range(7)] == [1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000]
    backoff.stood(9_999)
    assert backoff.next_ms() == 30_000
    backoff.stood(10_000)
    assert backoff.next_ms() == 1_000


def test_delays_are_jittered_down_to_a_half() -> None:
    assert Backoff(jitter=lambda: 0.0).next_ms() == 500


def test_while_pairing_the_cap_is_lower() -> None:
    backoff = Backoff(jitter=lambda: 1.0)

    delays = [backoff.next_ms(error("PAIRING_REQUIRED")) for _ in range(5)]

    assert delays == [1_000, 2_000, 4_000, 5_000, 5_000]


@pytest.mark.parametrize(("asked", "delay"), [(700, 700), (0, 100), (10**9, 60_000)])
def test_a_wish_of_the_gateway_is_honoured_within_bounds(asked: int, delay: int) -> None:
    assert Backoff(jitter=lambda: 0.0).next_ms(error("X", retry_after_ms=asked)) == delay


@pytest.mark.parametrize(
    ("code", "final"),
    [
        ("AUTH_TOKEN_MISMATCH", True),
        ("PROTOCOL_MISMATCH", True),
        ("DEVICE_AUTH_SIGNATURE_INVALID", True),
        ("DEVICE_AUTH_SIGNATURE_EXPIRED", False),
        ("DEVICE_AUTH_NONCE_MISMATCH", False),
        ("PAIRING_REQUIRED", False),
        (None, False),
        ("SOMETHING_NEW", False),
    ],
)
def test_what_is_final(code: str | None, final: bool) -> None:
    assert is_final(error(code)) is final
    assert not is_final(error(code, retryable=True))


@pytest.mark.parametrize(
    ("state", "foreground"), [("active", True), ("online", False), ("lingering", False), (None, False)]
)
def test_an_active_login_session_is_the_foreground(tmp_path: Path, state: str | None, foreground: bool) -> None:
    if state:
        (tmp_path / str(os.getuid())).write_text(f"# private\nNAME=me\nSTATE={state}\n")

    assert LoginSession(on_terminal=False, users=tmp_path).is_foreground() is foreground
    assert LoginSession(on_terminal=True, users=tmp_path).is_foreground()
