"""A connection that was let in as a node: asks go to it, results and events come from it. Pure."""

from collections import OrderedDict

from hereabouts.edge.dialect import Action, Answered, Invoke, Registration, Rejected, Verdict
from hereabouts.schemas.ids import is_correlation_id
from hereabouts.schemas.limits import MAX_REMEMBERED_RESULTS
from hereabouts.schemas.node_wire import (
    LOCATION_GET,
    LOCATION_MAX_AGE_MS,
    Ack,
    Error,
    EventName,
    Method,
    NodeEventName,
    NodeEventParams,
    NodeEventReply,
    NodeInvokeCancel,
    NodeInvokeResult,
    Request,
)
from hereabouts.schemas.outcomes import Reason
from hereabouts.schemas.tools import LOCATION_GET as LOCATION_TOOL

from .frames import event, failure, invalid, read_params, reject, response
from .handshake import Proven
from .invocation import location_request, max_age_ms, outcome_of, refusal
from .questions import Admitted, Query, Seen
from .registration import registration

SEEN_EVERY_MS = 60_000
"""How often a node's sign of life is written down; more often tells nobody anything."""

MAX_EVENT_CHARS = 64
"""How much of an event's name is said back."""


class NodeConnection:
    """What a node may do after hello-ok, and what may be asked of it."""

    methods = (Method.NODE_INVOKE_RESULT, Method.NODE_EVENT)
    events = (EventName.TICK, EventName.INVOKE_REQUEST, EventName.INVOKE_CANCEL)
    scopes: tuple[str, ...] = ()

    def __init__(self, proven: Proven, admitted: Admitted) -> None:
        self._proven = proven
        self._admitted = admitted
        self._max_age_ms: OrderedDict[str, int] = OrderedDict()
        self._seen_ms: float | None = None

    def registration(self, wall_ms: int) -> Registration | None:
        """Its place in the directory."""
        return registration(self._proven, self._admitted, wall_ms)

    def request(self, request: Request, method: Method, now_ms: float, wall_ms: int) -> list[Action] | Query:
        """Answer one of `methods`, or say what must be looked up for the answer."""
        if method is Method.NODE_INVOKE_RESULT:
            return self._result(request, wall_ms)
        return self._event(request, now_ms)

    def ask(self, invoke: Invoke) -> list[Action]:
        """Pass an ask on, or answer it for a node that may not be asked this."""
        refused = self._why_not(invoke.tool)
        if refused is not None:
            return [Answered(invoke.correlation_id, refusal(refused), None)]
        self._max_age_ms[invoke.correlation_id] = max_age_ms(invoke.params)
        while len(self._max_age_ms) > MAX_REMEMBERED_RESULTS:
            self._max_age_ms.popitem(last=False)
        return [event(EventName.INVOKE_REQUEST, location_request(invoke, self._proven.device_id))]

    def cancel(self, correlation_id: str) -> list[Action]:
        """The node may stop. What it still sends is judged as before, and the edge finds it late."""
        if correlation_id not in self._max_age_ms:
            return []
        withdrawn = NodeInvokeCancel(invoke_id=correlation_id, node_id=self._proven.device_id)
        return [event(EventName.INVOKE_CANCEL, withdrawn)]

    def answered(self, request_id: str, verdict: Verdict) -> list[Action]:
        """Acknowledge a result."""
        if verdict == "not_yours":
            return [failure(request_id, invalid("nodeId mismatch")), Rejected("node_mismatch")]
        return [response(request_id, Ack(ignored=None if verdict == "accepted" else True))]

    def _why_not(self, tool: str) -> Reason | None:
        if tool != LOCATION_TOOL or LOCATION_GET not in self._proven.params.commands:
            return Reason.UNSUPPORTED
        return None if LOCATION_GET in self._admitted.commands else Reason.POLICY

    def _result(self, request: Request, wall_ms: int) -> list[Action]:
        result = read_params(NodeInvokeResult, request)
        if isinstance(result, Error):
            return [failure(request.id, result), Rejected("invalid_result")]
        if result.node_id != self._proven.device_id:
            return reject(request, "nodeId mismatch", "node_mismatch")
        if not is_correlation_id(result.id):
            return [response(request.id, Ack(ignored=True))]
        limit_ms = self._max_age_ms.pop(result.id, LOCATION_MAX_AGE_MS)
        return [Answered(result.id, outcome_of(result, limit_ms, wall_ms), request.id)]

    def _event(self, request: Request, now_ms: float) -> list[Action] | Query:
        told = read_params(NodeEventParams, request)
        if isinstance(told, Error):
            return [failure(request.id, told), Rejected("invalid_event")]
        alive = told.event == NodeEventName.PRESENCE_ALIVE
        if alive and (self._seen_ms is None or now_ms - self._seen_ms >= SEEN_EVERY_MS):
            self._seen_ms = now_ms
            return Seen(self._admitted.tenant, self._admitted.user, self._proven.device_id)
        # A position that nobody asked for is not kept: nobody was told that it would be.
        return [response(request.id, NodeEventReply(event=told.event[:MAX_EVENT_CHARS], handled=alive))]
