"""A counterpart of Hindsight's HTTP interface, as its SDK uses it."""

from __future__ import annotations

from typing import Any

from aiohttp import web

from tests.counterparts.memory_service import MemoryService, matches


class HindsightService(MemoryService):
    """Banks of documents. A bank that was not made does not exist."""

    def __init__(self) -> None:
        super().__init__()
        self.banks: dict[str, dict[str, str]] = {}
        self.operations: list[str] = []

    def routes(self) -> list[web.RouteDef]:
        bank = "/v1/default/banks/{bank}"
        return [
            web.get("/version", self.version),
            web.put(bank, self.make),
            web.post(f"{bank}/memories", self.retain),
            web.post(f"{bank}/memories/recall", self.recall),
        ]

    async def version(self, request: web.Request) -> web.Response:
        names = (
            *("observations", "mcp", "worker", "bank_config_api", "bank_llm_health", "file_upload_api"),
            *("document_export_api", "document_import_api", "audit_log", "llm_trace", "store_document_text"),
        )
        features = dict.fromkeys(names, True)
        return web.json_response({"api_version": "1.1.0", "features": features})

    async def make(self, request: web.Request) -> web.Response:
        name = request.match_info["bank"]
        self.banks.setdefault(name, {})
        return web.json_response(
            {
                "bank_id": name,
                "name": name,
                "mission": "",
                "disposition": {"skepticism": 3, "literalism": 3, "empathy": 3},
            }
        )

    def _bank(self, request: web.Request) -> dict[str, str]:
        found = self.banks.get(request.match_info["bank"])
        if found is None:
            raise web.HTTPNotFound
        return found

    async def retain(self, request: web.Request) -> web.Response:
        bank, body = self._bank(request), await request.json()
        self.operations.append(body.get("operation_id") or "")
        for item in body["items"]:
            bank[item["document_id"]] = item["content"]
        answer: dict[str, Any] = {
            "success": True,
            "bank_id": request.match_info["bank"],
            "items_count": len(body["items"]),
            "async": body.get("async", False),
        }
        return web.json_response(answer)

    async def recall(self, request: web.Request) -> web.Response:
        bank, body = self._bank(request), await request.json()
        found = [
            {"id": key, "text": text, "type": "world", "document_id": key}
            for key, text in bank.items()
            if matches(body["query"], text)
        ]
        return web.json_response({"results": found})
