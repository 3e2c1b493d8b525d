"""A counterpart of Honcho's HTTP interface (v3), as its SDK uses it."""

from __future__ import annotations

from typing import Any

from aiohttp import web

from tests.counterparts.memory_service import MemoryService, matches

NOW = "2026-01-02T03:04:05Z"


class HonchoService(MemoryService):
    """Workspaces with peers, sessions, messages and conclusions. What a peer that is observed says is concluded."""

    def __init__(self) -> None:
        super().__init__()
        self.workspaces: set[str] = set()
        self.peers: set[str] = set()
        self.sessions: dict[str, dict[str, Any]] = {}
        self.messages: dict[str, list[dict[str, Any]]] = {}
        self.conclusions: list[dict[str, Any]] = []
        self.cards: dict[str, list[str]] = {}

    def routes(self) -> list[web.RouteDef]:
        one = "/v3/workspaces/{workspace}"
        return [
            web.post("/v3/workspaces", self.workspace),
            web.post(f"{one}/peers", self.peer),
            web.post(f"{one}/peers/{{peer}}/representation", self.representation),
            web.post(f"{one}/peers/{{peer}}/chat", self.chat),
            web.get(f"{one}/peers/{{peer}}/card", self.card),
            web.post(f"{one}/sessions", self.session),
            web.post(f"{one}/sessions/{{session}}/messages", self.add),
            web.post(f"{one}/sessions/{{session}}/messages/list", self.listing),
            web.post(f"{one}/conclusions", self.conclude),
            web.post(f"{one}/conclusions/query", self.query),
        ]

    async def workspace(self, request: web.Request) -> web.Response:
        name = (await request.json())["id"]
        self.workspaces.add(name)
        return web.json_response({"id": name, "metadata": {}, "configuration": {}, "created_at": NOW})

    async def peer(self, request: web.Request) -> web.Response:
        name = (await request.json())["id"]
        self.peers.add(name)
        return web.json_response({"id": name, "workspace_id": request.match_info["workspace"], "created_at": NOW})

    async def session(self, request: web.Request) -> web.Response:
        body = await request.json()
        self.sessions.setdefault(body["id"], {}).update(body.get("peers") or {})
        return web.json_response(
            {"id": body["id"], "is_active": True, "workspace_id": request.match_info["workspace"], "created_at": NOW}
        )

    async def add(self, request: web.Request) -> web.Response:
        name = request.match_info["session"]
        kept = self.messages.setdefault(name, [])
        added = []
        for one in (await request.json())["messages"]:
            message = {
                "id": f"m{len(kept)}",
                "content": one["content"],
                "peer_id": one["peer_id"],
                "session_id": name,
                "metadata": one.get("metadata") or {},
                "created_at": one.get("created_at") or NOW,
                "workspace_id": request.match_info["workspace"],
                "token_count": 1,
            }
            kept.append(message)
            added.append(message)
            if self.sessions.get(name, {}).get(one["peer_id"], {}).get("observe_me"):
                self._conclude(one["peer_id"], one["content"])
        return web.json_response(added, status=201)

    async def listing(self, request: web.Request) -> web.Response:
        wanted = (((await request.json()) or {}).get("filters") or {}).get("metadata") or {}
        found = [
            one
            for one in self.messages.get(request.match_info["session"], [])
            if all(one["metadata"].get(key) == value for key, value in wanted.items())
        ]
        return web.json_response({"items": found, "total": len(found), "page": 1, "size": 50, "pages": 1})

    def _conclude(self, peer: str, content: str) -> dict[str, Any]:
        made = {
            "id": f"c{len(self.conclusions)}",
            "content": content,
            "observer_id": peer,
            "observed_id": peer,
            "created_at": NOW,
        }
        self.conclusions.append(made)
        return made

    async def conclude(self, request: web.Request) -> web.Response:
        given = (await request.json())["conclusions"]
        return web.json_response([self._conclude(one["observed_id"], one["content"]) for one in given], status=201)

    async def query(self, request: web.Request) -> web.Response:
        body = await request.json()
        observed = (body.get("filters") or {}).get("observed_id")
        return web.json_response(
            [
                one
                for one in self.conclusions
                if one["observed_id"] == observed and matches(body["query"], one["content"])
            ]
        )

    async def representation(self, request: web.Request) -> web.Response:
        query, peer = (await request.json()).get("search_query", ""), request.match_info["peer"]
        lines = [
            f"- {one['content']}"
            for one in self.conclusions
            if one["observed_id"] == peer and matches(query, one["content"])
        ]
        return web.json_response({"representation": "\n".join(["# Explicit", *lines])})

    async def chat(self, request: web.Request) -> web.Response:
        return web.json_response({"content": f"{request.match_info['peer']} is somebody."})

    async def card(self, request: web.Request) -> web.Response:
        return web.json_response({"peer_card": self.cards.get(request.match_info["peer"])})
