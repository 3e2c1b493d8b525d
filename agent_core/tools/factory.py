"""The tools that come with Tidings."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from agent_core.tools.clarify import Clarify
from agent_core.tools.files import ListFiles, PatchFile, ReadFile, WriteFile
from agent_core.tools.ports import Tool
from agent_core.tools.registry import Registry
from agent_core.tools.search_files import SearchFiles
from agent_core.tools.send_message import SendMessage
from agent_core.tools.settings import ToolSettings
from agent_core.tools.terminal import Terminal
from agent_core.tools.todo import Todo
from agent_core.tools.web_fetch import WebFetch


def default_registry(settings: ToolSettings | None = None, *, more: Sequence[Tool] = ()) -> Registry:
    """Every built-in tool, and `more` from elsewhere. Terminal and files need Linux (/proc, death
    signals) and are left out on other systems."""
    settings = settings or ToolSettings()
    tools: list[Tool] = [Todo(), Clarify(), WebFetch(settings.web), *more]
    if sys.platform.startswith("linux"):
        files = settings.files
        tools += [ReadFile(files), WriteFile(files), PatchFile(files), ListFiles(files), SearchFiles(files)]
        tools += [SendMessage(files), Terminal(settings.terminal)]
    return Registry(tools)
