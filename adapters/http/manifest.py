"""What is known of the HTTP adapter without importing it."""

from __future__ import annotations

from adapters.registry import Manifest

MANIFEST = Manifest(
    name="http",
    title="HTTP",
    settings="adapters.http.settings:HttpSettings",
    adapter="adapters.http.adapter:make",
    renderer="adapters.http.render:HttpRenderer",
)
