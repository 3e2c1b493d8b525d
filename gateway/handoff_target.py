"""Where a hand-off goes: from what somebody has written to an address and the key of its line."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from adapters.events import ChatAddress, EventKind
from adapters.ports import PlatformAdapter
from adapters.settings import PlatformSettings
from gateway.convert import address_from_json
from gateway.keys import Share, line_key, person_of, session_key
from state.ids import SessionKey
from state.store import Store

TERMINAL = "terminal"
LISTED = 10
SPOKEN = 50
"""Events of a private chat by which it is known who is in it."""


class TargetFault(Exception):
    """The session cannot go there. The message is for people, and nothing has been done."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A place, and what people call it."""

    address: ChatAddress
    name: str


class Targets:
    """Looks places up in the directory, the homes and the configuration."""

    def __init__(
        self,
        store: Store,
        adapters: Mapping[str, PlatformAdapter],
        settings: Callable[[], Mapping[str, PlatformSettings]],
        owners: Callable[[str], list[str]],
        shares: Callable[[ChatAddress], tuple[Share, Share]],
        *,
        elsewhere: bool = False,
    ) -> None:
        """`owners` gives the ids of the owners on a platform, `shares` how lines are shared at an address
        (groups, threads). `elsewhere`: the platforms are served by another process, the daemon, which
        looks whether they are connected."""
        self._store = store
        self._adapters = adapters
        self._settings = settings
        self._owners = owners
        self._shares = shares
        self._elsewhere = elsewhere

    async def find(self, text: str) -> Target:
        """From "platform", "platform:chat", "platform:chat:thread" or "platform name of a chat".

        Raises `TargetFault`, and a `StateError`.
        """
        platform, rest = _split(text)
        if platform == TERMINAL:
            raise TargetFault("the terminal is no chat")  # the caller moves there without a claim
        adapter, settings = self._adapters.get(platform), self._settings().get(platform)
        if adapter is None and not (self._elsewhere and settings is not None and settings.enabled):
            raise TargetFault(f"{platform} is not switched on" if settings else f"I know no platform {platform!r}")
        if adapter is not None and not adapter.account:
            raise TargetFault(f"{platform} is not connected at the moment")
        if rest:
            return await self._named(platform, rest)
        return await self._home(platform, adapter.account if adapter is not None else None)

    async def _home(self, platform: str, account: str | None) -> Target:
        home = await self._store.directory.home(platform)
        if home is not None:
            address = address_from_json(home)
            if account is not None and address.account != account:
                raise TargetFault(f"the home chat of {platform} belongs to another account; write /sethome there")
            return Target(address=address, name=await self._name(address))
        settings = self._settings().get(platform)
        configured = settings.home() if settings is not None else None
        if configured is not None:
            return await self._named(platform, configured)
        raise TargetFault(f"{platform} has no home chat: write /sethome there, or name a chat")

    async def _named(self, platform: str, wanted: str) -> Target:
        known = [(name, address_from_json(text)) for name, text in await self._store.directory.chats(platform)]
        chat, _, thread = wanted.partition(":")
        found = [(name, replace(one, thread_id=thread or None)) for name, one in known if one.chat_id == chat]
        found = found or [(name, one) for name, one in known if name.casefold() == wanted.casefold()]
        if not found:
            names = ", ".join(name or one.chat_id for name, one in known[:LISTED]) or "none yet"
            raise TargetFault(f"I know no chat {wanted!r} on {platform}; I know: {names}")
        if len(found) > 1:
            raise TargetFault(f"several chats are called {wanted!r}: {', '.join(one.chat_id for _, one in found)}")
        name, address = found[0]
        return Target(address=address, name=name or _id(address))

    async def _name(self, address: ChatAddress) -> str:
        for name, text in await self._store.directory.chats(address.platform):
            if address_from_json(text) == address and name:
                return name
        return _id(address)

    async def others_read(self, target: Target, asked_by: str) -> bool:
        """Whether anybody reads there but the asker and owners; True where that is not known.

        A private chat is named by the person in it, who may call himself as he likes. Raises a `StateError`.
        """
        address = target.address
        if address.chat_kind != "private":
            return True
        rows = await self._store.inbox.recent(session_key(address), SPOKEN)
        people = {row.sender_id for row in rows if row.kind in (EventKind.MESSAGE, EventKind.COMMAND)}
        owners = self._owners(address.platform)
        return not people or any(one not in owners and person_of(address.platform, one) != asked_by for one in people)

    def key(self, address: ChatAddress, asked_by: str) -> SessionKey:
        """The key that a first message of that place will have. Raises `TargetFault`."""
        groups, threads = self._shares(address)
        share = "shared" if address.chat_kind == "private" else threads if address.thread_id is not None else groups
        person = ""
        if share == "person":
            platform, _, sender = asked_by.partition(":")
            here = [sender] if platform == address.platform else self._owners(address.platform)
            if len(here) != 1:
                raise TargetFault("each person has a conversation of their own there, and I cannot tell whose is meant")
            person = here[0]
        return line_key(address, person, groups=groups, threads=threads)


def _split(text: str) -> tuple[str, str]:
    words = text.strip().split(maxsplit=1)
    if not words:
        raise TargetFault("where to? A platform, or platform:chat")
    platform, colon, chat = words[0].partition(":")
    rest = words[1] if len(words) > 1 else ""
    if colon and rest:
        return platform.lower(), f"{chat} {rest}"
    return platform.lower(), chat or rest


def _id(address: ChatAddress) -> str:
    return address.chat_id if address.thread_id is None else f"{address.chat_id}:{address.thread_id}"
