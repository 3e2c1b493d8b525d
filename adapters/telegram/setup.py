"""`tidings setup telegram`: the steps with BotFather, and the check of the token against Telegram."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from adapters.setup import Checked, Question
from adapters.telegram.link import Link

if TYPE_CHECKING:
    from adapters.setup import Setup

INTRO = """\
1. In Telegram, write to @BotFather: /newbot. It asks for a name and for a handle that ends with "bot".
2. It answers with the bot's token. It is asked for now.
3. For groups: in a group a bot hears only commands, replies to it and its mentions. If it is to hear everything,
   send BotFather /setprivacy, choose the bot and "Disable", then take the bot out of the group and in again.
4. Write to your new bot (press Start), else it may not write to you."""


def _token_fault(text: str) -> str | None:
    return None if re.fullmatch(r"[0-9]+:[\w-]+", text) else "a bot's token is a number, a colon and letters"


def _id_fault(text: str) -> str | None:
    return None if re.fullmatch(r"-?[1-9][0-9]*|\*", text) else "a person's id on Telegram is a number, not a name"


class TelegramSetup:
    """Implements `adapters.setup.Setup`."""

    @property
    def intro(self) -> str:
        """The steps."""
        return INTRO

    @property
    def questions(self) -> Sequence[Question]:
        """The token, and who may talk to the bot."""
        return (
            Question(key="token", text="The bot's token", secret=True, fault=_token_fault,
                     where="@BotFather: /newbot, or /mybots, your bot, API Token"),
            Question(key="allow", text="Who may talk to the bot (ids)", many=True, optional=True, fault=_id_fault,
                     where="A stranger who writes to the bot is told the id. Left empty, strangers get a code, and "
                           "`tidings pair approve CODE` lets them in."),
        )  # fmt: skip

    async def check(self, answers: Mapping[str, Any]) -> Checked:
        """Ask who the bot is, whether something else has set a webhook, and what it hears in groups."""
        link = Link(str(answers["token"]), answers.get("api_base"))
        try:
            me = await link.me()
            hook = await link.ask(lambda bot: bot.get_webhook_info())
        finally:
            await link.close()
        found = [f"the bot is @{me.username} (id {me.id})"]
        if me.can_read_all_group_messages:
            found.append("in groups it hears everything (privacy mode is off)")
        else:
            found.append("in groups it hears only commands, replies to it and its mentions (privacy mode is on)")
        if me.can_join_groups is False:
            found.append("it cannot be added to groups (BotFather: /setjoingroups)")
        if hook.url and answers.get("mode", "polling") == "polling":
            found.append("a webhook is set; it is removed when the daemon starts, and what waits there is kept")
        if hook.pending_update_count:
            found.append(f"{hook.pending_update_count} updates wait for it")
        missing = []
        if hook.last_error_message and answers.get("mode") == "webhook":
            error = hook.last_error_message[:200]
            missing.append(f"Telegram could not reach the webhook lately ({error}): check its address and certificate")
        return Checked(
            found=tuple(found), missing=tuple(missing), after=f"Write to the bot: https://t.me/{me.username}"
        )


SETUP = TelegramSetup()

if TYPE_CHECKING:
    _: Setup = SETUP
