"""Calls and blocks that the Slack counterpart refuses as Slack does, each with Slack's code."""

from __future__ import annotations

from typing import Any

from tests.counterparts.slack_setting import Setting, actions, button, section

POST, UPDATE, OPEN = "chat.postMessage", "chat.update", "conversations.open"

REFUSALS: list[tuple[str, str, str]] = [
    (POST, "C404 text=x", "channel_not_found"),
    (POST, "{secret} text=x", "channel_not_found"),
    (POST, "{other} text=x", "not_in_channel"),
    (POST, "{old} text=x", "is_archived"),
    (POST, "{locked} text=x", "restricted_action"),
    (POST, "{bot} text=x", "cannot_dm_bot"),
    (POST, "{room}", "no_text"),
    (POST, "{room} text={long}", "msg_too_long"),
    (POST, "{room} text=x blocks={{", "invalid_blocks_format"),
    (POST, "{room} text=x attachments=x", "invalid_attachments"),
    (POST, "{room} text=x markdown_text=x", "markdown_text_conflict"),
    (POST, '{room} text=x metadata={{"event_type":"x"}}', "invalid_metadata_format"),
    (UPDATE, "{room} ts={said} text=x", "cant_update_message"),
    (UPDATE, "{room} ts=1.000001 text=x", "message_not_found"),
    (UPDATE, "{room} ts={own}", "no_text"),
    (UPDATE, "{room} ts={own} text={longish}", "msg_too_long"),
    ("chat.delete", "{room} ts={said}", "cant_delete_message"),
    ("chat.delete", "{room} ts=1.000001", "message_not_found"),
    ("chat.postEphemeral", "{room} user={cem} text=x", "user_not_in_channel"),
    ("chat.getPermalink", "{room} message_ts=1.000001", "message_not_found"),
    ("chat.startStream", "{room} thread_ts={said} recipient_team_id=T", "missing_recipient_user_id"),
    ("chat.startStream", "{room} thread_ts={said}", "missing_recipient_team_id"),
    ("chat.appendStream", "{room} ts={said} markdown_text=x", "message_not_owned_by_app"),
    ("conversations.history", "{other}", "not_in_channel"),
    ("conversations.history", "{room} cursor=x", "invalid_cursor"),
    ("conversations.history", "{room} limit=1001", "invalid_limit"),
    ("conversations.history", "{room} oldest=then", "invalid_ts_oldest"),
    ("conversations.replies", "{room} ts=1.000001", "thread_not_found"),
    ("conversations.list", "types=clubs", "invalid_types"),
    ("conversations.join", "{secret}", "channel_not_found"),
    ("conversations.join", "{old}", "is_archived"),
    (OPEN, "users={bot}", "cannot_dm_bot"),
    (OPEN, "users=U404", "user_not_found"),
    (OPEN, "users={gone}", "user_disabled"),
    (OPEN, "", "users_list_not_supplied"),
    ("reactions.add", "{room} timestamp=1.000001 name=eyes", "message_not_found"),
    ("reactions.add", "{room} timestamp={said} name=x!", "invalid_name"),
    ("reactions.remove", "{room} timestamp={said} name=eyes", "no_reaction"),
    ("assistant.threads.setStatus", "channel_id={room} thread_ts=1.000001 status=x", "invalid_thread_ts"),
    ("files.getUploadURLExternal", "filename=a length=0", "invalid_arguments"),
    ("files.info", "file=F404", "file_not_found"),
    ("users.info", "user=U404", "user_not_found"),
    ("bots.info", "bot=B404", "bot_not_found"),
    ("chat.shout", "", "unknown_method"),
]
"""Method, arguments and code; the names in braces are those of `arranged`, the first word may be the channel."""

BAD_BLOCKS: list[list[dict[str, Any]]] = [
    [section("x" * 3001)],
    [section()] * 51,
    [actions(button("x" * 76))],
    [actions(button(value="x" * 2001))],
    [actions(button(action_id="x" * 256))],
    [actions(*(button(action_id=str(at)) for at in range(26)))],
    [actions(button(), button())],
    [{"type": "header", "text": {"type": "plain_text", "text": "x" * 151}}],
    [{"type": "header", "text": {"type": "mrkdwn", "text": "x"}}],
    [{"type": "markdown", "text": "x" * 6001}] * 2,
    [{"type": "section"}],
    [{"type": "section", "text": "x"}],
    [section("")],
    [{"type": "nothing"}],
    [actions()],
]

CALLS: list[tuple[dict[str, Any], bool]] = [
    ({"text": "<!channel> x"}, True),
    ({"text": "<!here|here>"}, True),
    ({"text": "<!everyone>"}, True),
    ({"text": "<!subteam^S1|@cooks>"}, True),
    ({"text": "x", "blocks": [section("<!here>")]}, True),
    ({"text": "@channel", "link_names": True}, True),
    ({"text": "@here", "parse": "full"}, True),
    ({"text": "@channel"}, False),
    ({"text": "&lt;!channel&gt;"}, False),
    ({"text": "x", "blocks": [actions(button("<!here>"))]}, False),
    ({"text": "mail@channel.example", "link_names": True}, False),
]
"""Posts, and whether they call a whole channel or group."""


async def arranged(here: Setting) -> dict[str, str]:
    """The names in `REFUSALS`."""
    world = here.slack.world
    places = {
        "room": here.room, "secret": world.channel("secret", here.ann, kind="group", bot=False),
        "other": world.channel("other", here.ann, bot=False), "old": world.channel("old"),
        "locked": world.channel("locked"),
    }  # fmt: skip
    places["old"].archived, places["locked"].refuses = True, "restricted_action"
    return {
        **{name: one.id for name, one in places.items()}, "long": "x" * 40_001, "longish": "x" * 4_001,
        "said": here.slack.say(here.room, here.ann, "mine")["ts"], "own": await here.post(),
        "bot": world.person("Other", is_bot=True), "cem": world.person("Cem"),
        "gone": world.person("Gone", deleted=True),
    }  # fmt: skip


def arguments(text: str, names: dict[str, str]) -> dict[str, str]:
    """The arguments of a row."""
    given: dict[str, str] = {}
    for word in text.format(**names).split():
        name, sign, value = word.partition("=")
        given[name if sign else "channel"] = value if sign else word
    return given
