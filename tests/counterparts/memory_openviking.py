"""A counterpart of OpenViking's HTTP interface, as its SDK uses it."""

from __future__ import annotations

from typing import Any

from aiohttp import web

from tests.counterparts.memory_service import MemoryService, matches


class OpenVikingService(MemoryService):
    """Sessions of messages; a commit draws the memories of their peers. `leaks` gives a peer everybody's memories."""

    leaks = False

    def __init__(self) -> None:
        super().__init__()
        self.sessions: dict[str, dict[str, Any]] = {}
        self.messages: dict[str, list[dict[str, Any]]] = {}
        self.memories: list[dict[str, Any]] = []
        self.commits: list[str] = []

    def allowed(self, request: web.Request) -> bool:
        return request.headers.get("X-API-Key") == self.key

    def routes(self) -> list[web.RouteDef]:
        one = "/api/v1/sessions/{session}"
        return [
            web.get("/health", self.health),
            web.post("/api/v1/sessions", self.create),
            web.post(f"{one}/messages/batch", self.add),
            web.get(f"{one}/context", self.context),
            web.post(f"{one}/commit", self.commit),
            web.post("/api/v1/search/find", self.find),
        ]

    @staticmethod
    def _ok(result: Any) -> web.Response:
        return web.json_response({"status": "ok", "result": result})

    def refused(self) -> web.Response:
        error = {"code": "INVALID_ARGUMENT", "message": "words that were said"}
        return web.json_response({"status": "error", "error": error}, status=422)

    async def health(self, request: web.Request) -> web.Response:
        return web.json_response({"status": "ok"})

    async def create(self, request: web.Request) -> web.Response:
        body = await request.json()
        self.sessions.setdefault(body["session_id"], body)
        return self._ok({"session_id": body["session_id"]})

    async def add(self, request: web.Request) -> web.Response:
        name = request.match_info["session"]
        added = (await request.json())["messages"]
        self.messages.setdefault(name, []).extend(added)
        return self._ok({"session_id": name, "message_count": len(self.messages[name]), "added": len(added)})

    async def context(self, request: web.Request) -> web.Response:
        return self._ok({"messages": self.messages.get(request.match_info["session"], [])})

    async def commit(self, request: web.Request) -> web.Response:
        name = request.match_info["session"]
        self.commits.append(name)
        policy = self.sessions[name]["memory_policy"]
        for one in self.messages.pop(name, []):
            if one["role"] == "user" and policy["peer"]["enabled"]:
                self._keep(f"viking://user/u/peers/{one['peer_id']}/memories/", one["content"])
            if one["role"] == "user" and policy["self"]["enabled"]:
                self._keep("viking://user/u/memories/", one["content"])
        return self._ok({"status": "accepted"})

    def _keep(self, folder: str, text: str) -> None:
        uri = f"{folder}{len(self.memories)}.md"
        self.memories.append({"uri": uri, "context_type": "memory", "abstract": text, "score": 0.5})

    async def find(self, request: web.Request) -> web.Response:
        query = (await request.json())["query"]
        seen = ["viking://user/u/memories/", f"/peers/{request.headers.get('X-OpenViking-Actor-Peer')}/memories/"]
        found = [
            one
            for one in self.memories
            if matches(query, one["abstract"]) and (self.leaks or any(part in one["uri"] for part in seen))
        ]
        return self._ok({"memories": found, "resources": [], "skills": [], "total": len(found)})
