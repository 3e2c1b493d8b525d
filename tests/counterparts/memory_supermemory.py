"""A counterpart of Supermemory's HTTP interface, as its SDK uses it."""

from __future__ import annotations

from typing import Any

from aiohttp import web

from tests.counterparts.memory_service import MemoryService, matches


class SupermemoryService(MemoryService):
    """Namespaces of documents. One begins with its first document; the same id again appends. While it is `silent`
    it takes documents and never says so."""

    silent = False

    def __init__(self) -> None:
        super().__init__()
        self.spaces: dict[str, dict[str, list[str]]] = {}
        self.static: dict[str, list[str]] = {}

    def routes(self) -> list[web.RouteDef]:
        return [
            web.get("/organization", self.organization),
            web.get("/org", self.organization),
            web.post("/ns/{space}/document", self.add),
            web.get("/ns/{space}/document/{id}", self.get),
            web.post("/ns/{space}/search", self.search),
            web.post("/ns/{space}/profile", self.profile),
        ]

    async def organization(self, request: web.Request) -> web.Response:
        return web.json_response({"id": "org", "name": "us"})

    def _space(self, request: web.Request) -> dict[str, list[str]]:
        found = self.spaces.get(request.match_info["space"])
        if found is None:
            raise web.HTTPNotFound
        return found

    async def add(self, request: web.Request) -> web.Response:
        body = await request.json()
        self.spaces.setdefault(request.match_info["space"], {}).setdefault(body["id"], []).append(body["content"])
        if self.silent:
            await self._gone.wait()
        return web.json_response({"id": body["id"], "status": "queued"}, status=202)

    async def get(self, request: web.Request) -> web.Response:
        found = self._space(request).get(request.match_info["id"])
        if found is None:
            raise web.HTTPNotFound
        return web.json_response({"id": request.match_info["id"], "content": "\n".join(found), "metadata": {}})

    async def search(self, request: web.Request) -> web.Response:
        query = (await request.json())["query"]
        found: list[dict[str, Any]] = [
            {"id": f"{name}-{number}", "memory": text, "metadata": {}, "similarity": 0.8, "isLatest": True}
            for name, texts in self._space(request).items()
            for number, text in enumerate(texts)
            if matches(query, text)
        ]
        return web.json_response({"results": found, "searchTime": 1})

    async def profile(self, request: web.Request) -> web.Response:
        self._space(request)
        static = [
            {"id": str(number), "memory": text}
            for number, text in enumerate(self.static.get(request.match_info["space"], []))
        ]
        return web.json_response({"profile": {"static": static, "dynamic": [], "buckets": {}}})
