"""The Slack counterpart's payloads beside Slack's own samples (those of its Java SDK, read by a test only)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.counterparts.slack_setting import Setting, actions, button
from tests.counterparts.slack_world import BOT_ID

SAMPLES = Path(__file__).parents[3] / "shared" / "specs" / "slack" / "samples"
FREE = ("shares", "files", "blocks", "values")
"""What is a map of anything, or is compared elsewhere."""
MORE = frozenset(
    {
        "files.info/response_metadata",
        "message/app_id",
        *(f"{kind}/files" for kind in ("message_changed/message", "message_changed/previous_message")),
        "message_deleted/previous_message/files",
        *(f"thread_broadcast/{name}" for name in ("parent_user_id", "team", "root/app_id", "root/blocks")),
        *("app_uninstalled/event_ts", "tokens_revoked/event_ts"),
    }
)
"""What Slack sends and its samples lack."""
EVENTS = {
    "message": "MessagePayload",
    "file_share": "MessageFileSharePayload",
    "message_changed": "MessageChangedPayload",
    "message_deleted": "MessageDeletedPayload",
    "thread_broadcast": "MessageThreadBroadcastPayload",
    "bot_message": "MessageBotPayload",
    "app_mention": "AppMentionPayload",
    "reaction_added": "ReactionAddedPayload",
    "reaction_removed": "ReactionRemovedPayload",
    "member_joined_channel": "MemberJoinedChannelPayload",
    "member_left_channel": "MemberLeftChannelPayload",
    "channel_join": "MessageChannelJoinPayload",
    "channel_leave": "MessageChannelLeavePayload",
    "channel_archive": "ChannelArchivePayload",
    "channel_rename": "ChannelRenamePayload",
    "app_uninstalled": "AppUninstalledPayload",
    "tokens_revoked": "TokensRevokedPayload",
}


async def strange_names(here: Setting) -> list[str]:
    """Every name in our payloads that Slack's samples do not have."""

    def sample(name: str) -> Any:
        return json.loads((SAMPLES / f"{name}.json").read_text("utf-8"))

    slack, client, room = here.slack, here.client, here.room
    ts = await here.post(blocks=[actions(button())])
    said = slack.say(room, here.ann, "x", files=[("a", "text/plain", b"x")])
    calls = {
        "auth.test": client.auth_test(),
        "bots.info": client.bots_info(bot=BOT_ID),
        "team.info": client.team_info(),
        "users.info": client.users_info(user=here.ann),
        "conversations.info": client.conversations_info(channel=room.id),
        "conversations.members": client.conversations_members(channel=room.id),
        "files.info": client.files_info(file=said["files"][0]["id"]),
        "chat.getPermalink": client.chat_getPermalink(channel=room.id, message_ts=ts),
    }
    found: list[str] = []
    for name, call in calls.items():
        found += _strangers((await call).data, sample(f"api/{name}"), name)
    _everything(here, ts, said)
    for _, body in slack.outbox.sent:
        event = body["event"]
        kind = event["type"] if event["type"] == "app_mention" else event.get("subtype", event["type"])
        whole = {**sample("events/ReactionAddedPayload"), "event": sample(f"events/{EVENTS[kind]}")["event"]}
        found += _strangers({**body, "event": {}}, whole, "outer")
        found += _strangers(event, whole["event"], kind)
    button_sample = sample("app-backend/interactive-components/BlockActionPayload")
    found += _strangers(
        slack.press(room, here.ann, ts, "Go"), {**button_sample, "is_enterprise_install": True}, "press"
    )
    command = sample("app-backend/slash-commands/SlashCommandPayload")
    found += _strangers(slack.slash(room, here.ann, "x"), command, "slash")
    return sorted(set(found) - MORE)


def _everything(here: Setting, ts: str, said: dict[str, Any]) -> None:
    """People do what there are samples of."""
    slack, room = here.slack, here.room
    slack.say(room, here.ann, f"<@{slack.bot}>")
    slack.thread_broadcast(room, here.ann, "x", ts)
    slack.bot_message(room, slack.world.person("Other", is_bot=True), "x", classic=True)
    slack.delete(room, slack.edit(room, said, "two")["message"])
    slack.react(room, here.ann, ts, "eyes")
    slack.unreact(room, here.ann, ts, "eyes")
    slack.join(room, slack.world.person("Cem"), inviter=here.ann)
    slack.leave(room, here.ben)
    slack.rename(room, "pantry")
    slack.archive(room, here.ann)
    slack.app_uninstalled()
    slack.tokens_revoked()


def _strangers(ours: Any, theirs: Any, where: str) -> Iterator[str]:
    """The names in `ours` that `theirs` does not have."""
    if not isinstance(ours, dict) or not isinstance(theirs, dict):
        return
    for name, value in ours.items():
        if name not in theirs:
            yield f"{where}/{name}"
        elif name not in FREE and theirs[name] != {}:
            yield from _strangers(value, theirs[name], f"{where}/{name}")
