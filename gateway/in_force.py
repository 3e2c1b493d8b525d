"""The configuration in force, and what each part is told of it. It is replaced whole by a reload.

Parts that look at their settings at each use are given a method of `InForce`; parts that hold a value of their
settings are given the new one by `Core.take`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from adapters.events import ChatAddress
from adapters.settings import PlatformSettings
from agent_core.loop import Budget
from agent_core.prompt import PromptSettings
from gateway.access import Access, AccessSettings
from gateway.approvals import ApprovalSettings
from gateway.config_types import Config
from gateway.intake import ChatSettings, OneChat
from gateway.keys import Share
from gateway.work import TurnSettings
from gateway.workers import WorkerLimits


class InForce:
    """The one place that knows which configuration counts now."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self._turns = turn_settings(config)

    def take(self, config: Config) -> None:
        """From now on this one counts."""
        self.config = config
        self._turns = turn_settings(config)

    def turns(self) -> TurnSettings:
        """The bounds of a turn that begins now."""
        return self._turns

    def approvals(self) -> ApprovalSettings:
        """How owners are asked."""
        tools = self.config.tools
        return ApprovalSettings(mode=tools.approvals, ttl=self.config.limits.approval_seconds, always=tools.always_ask)

    def busy(self) -> str:
        """What a message does while a turn runs, where nothing else is set."""
        return self.config.chat.busy

    def platforms(self) -> Mapping[str, PlatformSettings]:
        """The settings of every platform."""
        return self.config.platforms

    def shares(self, address: ChatAddress) -> tuple[Share, Share]:
        """How lines are shared at an address (groups, threads), as `intake` does it."""
        chat = chat_settings(self.config)
        return chat.of(address).sessions or chat.groups, chat.threads


def access_settings(
    config: Config, *, members: frozenset[str] = frozenset(), operators: frozenset[str] = frozenset()
) -> AccessSettings:
    """The access rules of the configuration. `members` and `operators` are persons that an adapter of this
    process vouches for."""
    tools = config.tools
    return AccessSettings(
        owners=frozenset(config.access.owners),
        allow={name: frozenset(getattr(settings, "allow", ())) for name, settings in config.platforms.items()},
        members=members,
        operators=operators,
        guest_tools=frozenset(tools.guests),
        member_tools=frozenset(tools.members),
        owner_tools=frozenset(tools.owners),
        group_tools=frozenset(tools.groups),
        disabled_tools=frozenset(tools.disabled),
        group_answers="all" if config.chat.group_answers == "all" else "addressed",
        free_chats=frozenset(name for name, chat in config.chat.chats.items() if chat.answers == "all"),
        addressed_chats=frozenset(name for name, chat in config.chat.chats.items() if chat.answers == "addressed"),
        names=config.chat.names,
        bots=frozenset(config.chat.allow_bots),
    )


def turn_settings(config: Config) -> TurnSettings:
    """The bounds of turns as configured."""
    limits = config.limits
    return TurnSettings(
        home=config.home,
        root=config.root,
        budget=Budget(iterations=limits.iterations, retry_seconds=limits.retry_seconds),
        prompt=PromptSettings(),
        disabled=frozenset(config.tools.disabled),
        turn_seconds=limits.turn_seconds,
    )


def chat_settings(config: Config) -> ChatSettings:
    """How chats behave, as configured."""
    chat = config.chat
    return ChatSettings(
        busy=chat.busy,
        groups=chat.group_sessions,
        threads=chat.thread_sessions,
        collect_hold=chat.collect_seconds,
        part_hold=chat.paste_seconds,
        longest=config.limits.message_chars,
        chats={name: OneChat(busy=one.busy, sessions=one.sessions) for name, one in chat.chats.items()},
    )


def worker_limits(config: Config) -> WorkerLimits:
    """How much may wait and run, as configured."""
    return WorkerLimits(queue=config.limits.queue_per_chat, turns=config.limits.concurrent_turns)


def owners_on(access: Access) -> Callable[[str], list[str]]:
    """The ids of the owners on a platform, by the lists as they are now."""

    def owners(platform: str) -> list[str]:
        people = (person.partition(":") for person in sorted(access.settings.owners))
        return [sender for name, _, sender in people if name == platform]

    return owners
