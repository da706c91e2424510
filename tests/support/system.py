"""One call through the whole system, as an agent makes it."""

from dataclasses import dataclass
from typing import Any

import httpx

from .waiting import until

HTTP_LIMIT_S = 40.0
"""Above the brain's last resort: a test that sees this has found a call that hangs."""


@dataclass
class Session:
    """One session over the brain's HTTP API, with the agent's own token."""

    http: httpx.AsyncClient
    made: dict[str, Any]

    @property
    def id(self) -> str:
        return str(self.made["session_id"])

    @property
    def page_url(self) -> str:
        return str(self.made["page_url"])

    def _as_agent(self) -> dict[str, str]:
        return {"authorization": f"Bearer {self.made['agent_token']}"}

    async def invoke(self, tool: str = "location_get", **request: Any) -> dict[str, Any]:
        """Invoke a tool; the answer's document."""
        response = await self.http.post(
            f"/v1/sessions/{self.id}/invocations", json={"tool": tool} | request, headers=self._as_agent()
        )
        assert response.status_code == 200, response.text
        answer: dict[str, Any] = response.json()
        if answer.get("reason") != "bus_lost":
            await self.told(answer)
        return answer

    async def told(self, answer: dict[str, Any]) -> None:
        """The journal alone tells this call's story, and the same one as its answer."""

        async def settled() -> dict[str, Any] | None:
            response = await self.http.get(f"/v1/invocations/{answer['correlation_id']}", headers=self._as_agent())
            return response.json() if response.status_code == 200 and response.json()["state"] == "settled" else None

        story = await until(settled, "the call's settled line in the journal")
        assert story is not None
        for field in ("status", "trace_id", "elapsed_ms", "budget_ms"):
            assert story[field] == answer[field], field
        assert story.get("reason") == answer.get("reason")
        kinds = [entry["kind"] for entry in story["timeline"]]
        assert kinds.count("settled") == 1
        assert ("asked" in kinds) == answer["dispatched"]
        if answer.get("answered_by") and answer["status"] in ("GRANTED", "DECLINED"):
            assert kinds.index("asked") < kinds.index("delivered") < kinds.index("answered") < kinds.index("settled")

    async def view(self) -> dict[str, Any]:
        response = await self.http.get(f"/v1/sessions/{self.id}", headers=self._as_agent())
        assert response.status_code == 200, response.text
        seen: dict[str, Any] = response.json()
        return seen

    async def clients(self, count: int = 1) -> list[dict[str, Any]]:
        """Wait until so many clients of the session offer location."""

        async def look() -> list[dict[str, Any]]:
            found = [c for c in (await self.view())["clients"] if "location_get" in c["tools"]]
            return found if len(found) == count else []

        return await until(look, f"{count} client(s) of the session") if count else []

    async def no_clients(self) -> None:
        """Wait until the session has no client."""

        async def look() -> bool:
            return not (await self.view())["clients"]

        await until(look, "the session to have no client")

    async def story(self, correlation_id: str) -> dict[str, Any]:
        """The call's view from the journal."""
        response = await self.http.get(f"/v1/invocations/{correlation_id}", headers=self._as_agent())
        assert response.status_code == 200, response.text
        story: dict[str, Any] = response.json()
        return story


async def new_session(http: httpx.AsyncClient, user: str | None = None) -> Session:
    """A session of the tenant whose key `http` carries."""
    response = await http.post("/v1/sessions", json={"user": user} if user else {})
    assert response.status_code in (200, 201), response.text
    return Session(http, response.json())
