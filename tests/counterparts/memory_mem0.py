"""A counterpart of Mem0's HTTP interface, as its SDK uses it."""

from __future__ import annotations

from typing import Any

from aiohttp import web

from tests.counterparts.memory_service import MemoryService, matches


class Mem0Service(MemoryService):
    """Memories by user. Every message of a user becomes one."""

    ignores_filters = False

    def __init__(self) -> None:
        super().__init__()
        self.memories: list[dict[str, Any]] = []

    def allowed(self, request: web.Request) -> bool:
        return request.headers.get("Authorization") == f"Token {self.key}"

    def routes(self) -> list[web.RouteDef]:
        return [
            web.get("/v1/ping/", self.ping),
            web.post("/v3/memories/add/", self.add),
            web.post("/v3/memories/search/", self.search),
            web.post("/v3/memories/", self.listing),
        ]

    async def ping(self, request: web.Request) -> web.Response:
        return web.json_response({"status": "ok", "org_id": "o", "project_id": "p", "user_email": "ada@example.org"})

    async def add(self, request: web.Request) -> web.Response:
        body = await request.json()
        for message in body["messages"]:
            if message["role"] == "user":
                self.memories.append(
                    {
                        "id": f"m{len(self.memories)}",
                        "memory": message["content"],
                        "user_id": body["user_id"],
                        "metadata": body.get("metadata") or {},
                    }
                )
        return web.json_response({"status": "PENDING", "event_id": "e1"})

    def _fits(self, memory: dict[str, Any], filters: dict[str, Any]) -> bool:
        if "OR" in filters:
            return any(self._fits(memory, one) for one in filters["OR"])
        if "AND" in filters:
            return all(self._fits(memory, one) for one in filters["AND"])
        for key, value in filters.items():
            if key == "metadata":
                if any(memory["metadata"].get(name) != wanted for name, wanted in value.items()):
                    return False
            elif memory.get(key) != value:
                return False
        return True

    async def search(self, request: web.Request) -> web.Response:
        body = await request.json()
        found = [
            {**one, "score": 0.9}
            for one in self.memories
            if matches(body["query"], one["memory"]) and (self.ignores_filters or self._fits(one, body["filters"]))
        ]
        return web.json_response({"results": found[: body.get("top_k", 10)]})

    async def listing(self, request: web.Request) -> web.Response:
        filters = (await request.json())["filters"]
        found = [one for one in self.memories if self._fits(one, filters)]
        return web.json_response({"count": len(found), "next": None, "previous": None, "results": found})
