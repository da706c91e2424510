"""Who is let in: the resolver on the in-memory bus, as a device and an operator meet it."""

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from hereabouts.bus.memory import MemoryBus, MemoryHub
from hereabouts.node_gateway.pairing import new_device_token, read_device_token
from hereabouts.node_gateway.questions import (
    Admission,
    Admitted,
    CredentialRefused,
    DecidePairing,
    DescribeNode,
    ListNodes,
    ListPairings,
    PairingRequired,
    Seen,
)
from hereabouts.node_gateway.resolver import Resolver
from hereabouts.runtime.keyring import KeyRing
from hereabouts.runtime.tokens import Tokens
from hereabouts.schemas.claims import TokenKind
from hereabouts.schemas.node_wire import DetailCode, Error, NodeDescribe, NodeList, PairingApproved, PairingList, Role
from hereabouts.schemas.records import ClientRecord, PairingRecord, PairingState
from hereabouts.schemas.records import Role as BusRole

FIVE_MINUTES_MS = 300_000


class World:
    """A gateway's resolver, its bus, and tokens of its deployment."""

    def __init__(self, hub: MemoryHub, bus: MemoryBus) -> None:
        self.hub = hub
        self.bus = bus
        self.tokens = Tokens(KeyRing.derive("s" * 40))
        self.resolver = Resolver(bus, self.tokens, hub.now_ms)

    def token(self, user: str | None = "ada", tenant: str = "acme", **fields: Any) -> str:
        return self.tokens.sign(TokenKind.GATEWAY, tenant, user=user, ttl_s=600, **fields)

    async def admit(self, admission: Admission, **changes: Any) -> Any:
        return await self.resolver(replace(admission, **changes))

    async def pairings(self, user: str = "ada", tenant: str = "acme") -> PairingList:
        found = await self.resolver(ListPairings(tenant, user))
        assert isinstance(found, PairingList)
        return found

    async def decide(self, request_id: str, approve: bool = True, user: str = "ada", tenant: str = "acme") -> Any:
        return await self.resolver(DecidePairing(tenant, user, request_id, approve))

    async def nodes(self, user: str = "ada") -> NodeList:
        found = await self.resolver(ListNodes("acme", user))
        assert isinstance(found, NodeList)
        return found


@pytest.fixture
async def world() -> AsyncIterator[World]:
    hub = MemoryHub()
    bus = MemoryBus(hub, BusRole.EDGE)
    await bus.start(lambda messages: None)
    yield World(hub, bus)
    await bus.stop()


@pytest.fixture
def admission(world: World, device: Any) -> Admission:
    params = device.connect_params("n")
    return Admission(
        device_id=device.id,
        public_key=params["device"]["publicKey"],
        role=Role.NODE,
        token=world.token(),
        device_token=None,
        display_name="Ada's phone",
        platform="iOS",
        device_family="iPhone",
        version="2026.9.1",
        commands=("location.get",),
    )


async def paired(world: World, admission: Admission) -> Admitted:
    """The device after a person's yes."""
    waiting = await world.admit(admission)
    assert isinstance(waiting, PairingRequired)
    assert isinstance(await world.decide(waiting.request_id), PairingApproved)
    admitted = await world.admit(admission)
    assert isinstance(admitted, Admitted)
    return admitted


# --- credentials ----------------------------------------------------------------------------------------------------


async def test_a_token_that_is_none_of_ours(world: World, admission: Admission) -> None:
    foreign = Tokens(KeyRing.derive("x" * 40)).sign(TokenKind.GATEWAY, "acme", user="ada", ttl_s=600)
    expired = world.tokens.sign(TokenKind.GATEWAY, "acme", user="ada", ttl_s=-1)
    agent = world.tokens.sign(TokenKind.AGENT, "acme", user="ada", ttl_s=600)
    nobody = world.token(user=None)
    for text in (foreign, expired, agent, nobody, "nonsense", "x" * 10_000, "hd", "ü"):
        assert await world.admit(admission, token=text) == CredentialRefused(DetailCode.AUTH_TOKEN_MISMATCH)
    for empty in (None, ""):
        assert await world.admit(admission, token=empty) == CredentialRefused(DetailCode.AUTH_TOKEN_MISSING)
    assert (await world.pairings()).pending == ()


@pytest.mark.parametrize(
    "text", ["hd_", "hd_a.b", "hd_!.!.!", "hd_a.b.c", "hd_YQ.YQ.c", "hd_" + "a" * 5_000, "hd_ü.a.a"]
)
async def test_a_device_token_that_nobody_was_given(world: World, admission: Admission, text: str) -> None:
    await paired(world, admission)
    answer = await world.admit(admission, token=text)
    assert isinstance(answer, CredentialRefused)


async def test_a_device_token_replaces_the_gateway_token(world: World, admission: Admission) -> None:
    first = await paired(world, admission)
    for changes in (
        {"token": None, "device_token": first.device_token},
        {"token": first.device_token, "device_token": None},
        {"token": first.device_token, "device_token": first.device_token},
        {"token": "expired", "device_token": first.device_token},
    ):
        again = await world.admit(admission, **changes)
        assert again == first


async def test_a_new_hello_by_gateway_token_makes_the_older_device_token_void(
    world: World, admission: Admission
) -> None:
    first = await paired(world, admission)
    second = await world.admit(admission)
    assert second.device_token != first.device_token
    refused = await world.admit(admission, token=None, device_token=first.device_token)
    assert refused == CredentialRefused(DetailCode.AUTH_DEVICE_TOKEN_MISMATCH)
    assert await world.admit(admission, token=None, device_token=second.device_token) == second


async def test_a_device_token_is_of_one_device(world: World, admission: Admission, new_device: Any) -> None:
    first = await paired(world, admission)
    other = new_device()
    thief = {"device_id": other.id, "public_key": other.connect_params("n")["device"]["publicKey"]}
    stolen = await world.admit(admission, token=None, device_token=first.device_token, **thief)
    assert stolen == CredentialRefused(DetailCode.AUTH_DEVICE_TOKEN_MISMATCH)


async def test_device_tokens_are_kept_as_a_hash_only(world: World, admission: Admission) -> None:
    first = await paired(world, admission)
    (record,) = await world.bus.records(PairingRecord).list("acme/")
    assert first.device_token not in record.model_dump_json()
    assert first.device_token not in repr(first)


def test_a_device_token_says_where_to_look_and_no_more() -> None:
    token = new_device_token("acme", "ada ☂")
    found = read_device_token(token)
    assert found is not None
    assert (found.tenant, found.user, found.auto_approve) == ("acme", "ada ☂", False)
    assert token not in repr(found)


# --- the first gate -------------------------------------------------------------------------------------------------


async def test_a_new_device_waits_for_a_person(world: World, admission: Admission) -> None:
    waiting = await world.admit(admission)
    assert isinstance(waiting, PairingRequired)
    (request,) = (await world.pairings()).pending
    assert (request.request_id, request.node_id) == (waiting.request_id, admission.device_id)
    assert (request.display_name, request.platform, request.commands) == ("Ada's phone", "iOS", ("location.get",))

    approved = await world.decide(waiting.request_id)
    assert isinstance(approved, PairingApproved)
    assert approved.node.node_id == admission.device_id
    admitted = await world.admit(admission)
    assert (admitted.tenant, admitted.user, admitted.commands) == ("acme", "ada", ("location.get",))
    assert (await world.pairings()).pending == ()
    assert [node.node_id for node in (await world.pairings()).paired] == [admission.device_id]


async def test_one_request_id_across_retries_that_ends_five_minutes_after_the_last(
    world: World, admission: Admission
) -> None:
    first = await world.admit(admission)
    for _ in range(3):
        world.hub.advance(FIVE_MINUTES_MS - 1_000)
        assert await world.admit(admission) == first
    world.hub.advance(FIVE_MINUTES_MS + 1)
    assert (await world.pairings()).pending == ()
    assert isinstance(await world.decide(first.request_id), Error)
    assert await world.admit(admission) != first


async def test_a_rejected_device_may_ask_anew_under_another_id(world: World, admission: Admission) -> None:
    first = await world.admit(admission)
    await world.decide(first.request_id, approve=False)
    assert (await world.pairings()).pending == ()
    second = await world.admit(admission)
    assert isinstance(second, PairingRequired)
    assert second.request_id != first.request_id


async def test_a_request_is_decided_once(world: World, admission: Admission) -> None:
    first = await world.admit(admission)
    assert isinstance(await world.decide(first.request_id), PairingApproved)
    again = await world.decide(first.request_id, approve=False)
    assert isinstance(again, Error)
    assert isinstance(await world.admit(admission), Admitted)


async def test_an_auto_approving_token_lets_a_device_in_at_once(world: World, admission: Admission) -> None:
    admitted = await world.admit(admission, token=world.token(auto_approve=True))
    assert isinstance(admitted, Admitted)
    assert admitted.commands == ("location.get",)
    assert isinstance(await world.admit(admission), Admitted)


async def test_an_auto_approving_token_settles_a_request_that_waits(world: World, admission: Admission) -> None:
    await world.admit(admission)
    await world.admit(admission, token=world.token(auto_approve=True))
    assert (await world.pairings()).pending == ()


async def test_pairing_survives_a_restart_of_the_gateway(world: World, admission: Admission) -> None:
    first = await paired(world, admission)
    world.hub.advance(365 * 24 * 3_600_000)
    successor = MemoryBus(world.hub, BusRole.EDGE)
    await successor.start(lambda messages: None)
    try:
        resolver = Resolver(successor, world.tokens, world.hub.now_ms)
        assert await resolver(replace(admission, token=None, device_token=first.device_token)) == first
    finally:
        await successor.stop()


@pytest.mark.parametrize(("tenant", "user"), [("acme", "bob"), ("zenith", "ada")])
async def test_a_device_under_another_user_or_tenant_is_another_device(
    world: World, admission: Admission, tenant: str, user: str
) -> None:
    first = await paired(world, admission)
    elsewhere = await world.admit(admission, token=world.token(user, tenant))
    assert isinstance(elsewhere, PairingRequired)
    assert isinstance(await world.decide(elsewhere.request_id), Error), "not theirs to decide"
    assert (await world.pairings()).pending == ()
    assert isinstance(await world.decide(elsewhere.request_id, user=user, tenant=tenant), PairingApproved)
    assert await world.admit(admission, token=None, device_token=first.device_token) == first


async def test_a_node_does_not_become_an_operator(world: World, admission: Admission) -> None:
    first = await paired(world, admission)
    as_operator = {"role": Role.OPERATOR, "commands": ()}
    assert isinstance(await world.admit(admission, **as_operator), PairingRequired)
    refused = await world.admit(admission, token=None, device_token=first.device_token, **as_operator)
    assert refused == CredentialRefused(DetailCode.AUTH_DEVICE_TOKEN_MISMATCH)


async def test_a_record_with_another_key_is_not_built_on(world: World, admission: Admission) -> None:
    await paired(world, admission)
    refused = await world.admit(admission, public_key="A" * 43)
    assert refused == CredentialRefused(DetailCode.DEVICE_AUTH_DEVICE_ID_MISMATCH)


# --- the second gate ------------------------------------------------------------------------------------------------


async def test_what_a_paired_device_newly_offers_waits_while_the_device_is_in(
    world: World, admission: Admission
) -> None:
    await paired(world, replace(admission, commands=()))
    admitted = await world.admit(admission)
    assert isinstance(admitted, Admitted)
    assert admitted.commands == ()
    (request,) = (await world.pairings()).pending
    assert request.is_repair is True
    (entry,) = (await world.nodes()).nodes
    assert entry.approval_state == "pending-approval"

    await world.decide(request.request_id)
    assert (await world.admit(admission)).commands == ("location.get",)
    assert (await world.pairings()).pending == ()


# --- what operators see ---------------------------------------------------------------------------------------------


async def test_a_list_shows_who_is_paired_and_who_is_connected(world: World, admission: Admission) -> None:
    await paired(world, admission)
    (entry,) = (await world.nodes()).nodes
    assert (entry.paired, entry.connected, entry.connected_at_ms) == (True, False, None)

    record = ClientRecord(
        tenant="acme",
        session=None,
        user="ada",
        kind="node",
        client_id=admission.device_id,
        connection="c_1",
        edge=world.bus.instance,
        epoch=world.bus.epoch,
        since_ms=77,
        active_at_ms=77,
        tools=[],
    )
    await world.bus.directory.put(record)
    (entry,) = (await world.nodes()).nodes
    assert (entry.connected, entry.connected_at_ms, entry.platform) == (True, 77, "iOS")
    assert (await world.nodes("bob")).nodes == ()

    described = await world.resolver(DescribeNode("acme", "ada", admission.device_id))
    assert isinstance(described, NodeDescribe)
    assert described.node_id == admission.device_id
    assert described.ts > 0
    assert isinstance(await world.resolver(DescribeNode("acme", "bob", admission.device_id)), Error)


async def test_a_sign_of_life_is_written_down(world: World, admission: Admission) -> None:
    await paired(world, admission)
    world.hub.advance(3_600_000)
    reply = await world.resolver(Seen("acme", "ada", admission.device_id))
    assert reply.wire() == {"ok": True, "event": "node.presence.alive", "handled": True}
    (record,) = await world.bus.records(PairingRecord).list("acme/")
    assert record.state is PairingState.APPROVED
    assert world.hub.now_ms() - (record.last_seen_at_ms or 0) < 60_000
