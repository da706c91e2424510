"""A connection that was let in as an operator: its methods, the scope each needs, the question it becomes. Pure."""

from collections.abc import Callable

from pydantic import ValidationError

from hereabouts.edge.dialect import Action, Answered, Invoke, Registration, Verdict
from hereabouts.schemas.node_wire import (
    Error,
    ErrorCode,
    EventName,
    Method,
    NodeDescribeParams,
    PairingDecisionParams,
    Request,
    validation_problems,
)
from hereabouts.schemas.outcomes import Reason

from .frames import failure, reject
from .invocation import refusal
from .questions import Admitted, DecidePairing, DescribeNode, ListNodes, ListPairings, Query

ADMIN = "operator.admin"
READ = "operator.read"
WRITE = "operator.write"
PAIRING = "operator.pairing"
SCOPE_OF_METHOD = {
    Method.NODE_LIST: READ,
    Method.NODE_DESCRIBE: READ,
    Method.NODE_INVOKE: WRITE,
    Method.NODE_PAIR_LIST: PAIRING,
    Method.NODE_PAIR_APPROVE: PAIRING,
    Method.NODE_PAIR_REJECT: PAIRING,
}
SCOPES = (ADMIN, READ, WRITE, PAIRING)

# Asking for a position is the brain's: there it is routed, journaled, and lowered to what the person allows.
NOT_SUPPORTED = Error(
    code=ErrorCode.UNAVAILABLE,
    message="node.invoke is not supported by this gateway: ask through the brain's HTTP API or MCP",
    details={"code": "NOT_SUPPORTED"},
    retryable=False,
)


class OperatorConnection:
    """What an operator may do after hello-ok: within its tenant and user, and its scopes."""

    methods = tuple(SCOPE_OF_METHOD)
    events = (EventName.TICK,)

    def __init__(self, admitted: Admitted, wished_scopes: tuple[str, ...]) -> None:
        self._admitted = admitted
        self.scopes = tuple(scope for scope in SCOPES if scope in wished_scopes)

    def registration(self, wall_ms: int) -> Registration | None:
        """None: an operator is nobody's device."""
        return None

    def request(self, request: Request, method: Method, now_ms: float, wall_ms: int) -> list[Action] | Query:
        """Answer one of `methods`, or say what must be looked up for the answer."""
        needed = SCOPE_OF_METHOD[method]
        if not self._may(needed):
            return reject(request, f"missing scope: {needed}", "scope")
        if method is Method.NODE_INVOKE:
            return [failure(request.id, NOT_SUPPORTED)]
        try:
            return _QUERIES[method](request, self._admitted)
        except ValidationError as error:
            return reject(request, f"invalid {method.value} params: {validation_problems(error)}", "invalid_params")

    def ask(self, invoke: Invoke) -> list[Action]:
        """Nothing can be asked of an operator, and nothing is: it is not in the directory."""
        return [Answered(invoke.correlation_id, refusal(Reason.UNSUPPORTED), None)]

    def cancel(self, correlation_id: str) -> list[Action]:
        """See `ask`."""
        return []

    def answered(self, request_id: str, verdict: Verdict) -> list[Action]:
        """See `ask`."""
        return []

    def _may(self, needed: str) -> bool:
        reads = needed == READ and WRITE in self.scopes
        return needed in self.scopes or ADMIN in self.scopes or reads


def _describe(request: Request, who: Admitted) -> Query:
    return DescribeNode(who.tenant, who.user, NodeDescribeParams.model_validate(request.params).node_id)


def _decide(approve: bool) -> Callable[[Request, Admitted], Query]:
    def query(request: Request, who: Admitted) -> Query:
        wish = PairingDecisionParams.model_validate(request.params)
        return DecidePairing(who.tenant, who.user, wish.request_id, approve)

    return query


_QUERIES: dict[Method, Callable[[Request, Admitted], Query]] = {
    Method.NODE_LIST: lambda _, who: ListNodes(who.tenant, who.user),
    Method.NODE_DESCRIBE: _describe,
    Method.NODE_PAIR_LIST: lambda _, who: ListPairings(who.tenant, who.user),
    Method.NODE_PAIR_APPROVE: _decide(True),
    Method.NODE_PAIR_REJECT: _decide(False),
}
