"""The tool `send_message`: say something now, with files, here or in another chat that the agent knows."""

from __future__ import annotations

import mimetypes
import os
import threading
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agent_core.models.ports import ToolSpec
from agent_core.tools import text
from agent_core.tools.confine import Confined, Refused
from agent_core.tools.files import confined
from agent_core.tools.ports import OutFile, ToolContext, ToolResult
from agent_core.tools.settings import FileSettings

_MOST_FILES = 10
_PART = 1 << 20


class SendMessage:
    """Copies the files out of the working folder first: what is sent cannot change on its way (B81)."""

    group = "files"
    parallel = False

    def __init__(self, settings: FileSettings) -> None:
        self._settings = settings
        self.spec = ToolSpec(
            name="send_message",
            description=(
                "Send files of the working folder, or a text before your final answer, to the person of this "
                "conversation; or to another chat with `to` (platform:chat, or platform:chat:thread). Your final "
                "answer is sent by itself: do not send it with this tool."
            ),
            parameters=(
                '{"type":"object","properties":{"text":{"type":"string","maxLength":20000},'
                '"files":{"type":"array","maxItems":' + str(_MOST_FILES) + ',"items":{"type":"string","minLength":1,'
                '"maxLength":4096}},"to":{"type":"string","minLength":1,"maxLength":300}},"additionalProperties":false}'
            ),
        )

    def describe(self, arguments: Mapping[str, Any]) -> str:
        """What goes where."""
        files = arguments.get("files")
        count = f" with {len(files)} files" if isinstance(files, list) and files else ""
        where = f" to {arguments['to']}" if arguments.get("to") else ""
        return text.line(f"sends a message{count}{where}")

    async def run(self, arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
        """See `Tool.run`."""
        said, paths = arguments.get("text", "").strip(), list(dict.fromkeys(arguments.get("files", ())))
        if not said and not paths:
            return ToolResult(content="Nothing to send: give text or files.", ok=False, summary="nothing to send")
        if context.post is None:
            return ToolResult(content="Messages cannot be sent from here.", ok=False, summary="cannot send here")
        files: list[OutFile] = []

        def copy(inside: Confined, stop: threading.Event) -> ToolResult:
            folder = context.home / "files" / "out"
            files.extend(_copy(inside, path, folder, self._settings.send_bytes, stop) for path in paths)
            return ToolResult(content="")

        copied = await confined(context, "Cannot send", copy)
        if not copied.ok:
            return copied
        posted = await context.post.post(context.call_id, said, files, arguments.get("to"))
        names = ", ".join(file.name for file in files)
        return ToolResult(
            content=posted.told, ok=posted.ok, summary=text.line(posted.told), extract=f"sent {names}" if names else ""
        )


def _copy(inside: Confined, path: str, folder: Path, most: int, stop: threading.Event) -> OutFile:
    """The file as it is now, as a file of ours."""
    with inside.file(path) as (descriptor, found, real):
        if found.st_size > most:
            raise Refused(f"{path!r} is larger than the {most // 1_000_000} MB that can be sent")
        if found.st_size == 0:
            raise Refused(f"{path!r} is empty")
        target = folder / uuid.uuid4().hex[:16] / inside.name(real).rpartition("/")[2]
        target.parent.mkdir(parents=True, mode=0o700)
        size = 0
        with target.open("xb") as out:
            while part := os.read(descriptor, _PART):
                size += len(part)
                if stop.is_set() or size > most:
                    raise Refused(f"{path!r} was not copied whole")
                out.write(part)
    mime = mimetypes.guess_type(target.name)[0] or "application/octet-stream"
    return OutFile(path=str(target), name=target.name, mime=mime, size=size)
