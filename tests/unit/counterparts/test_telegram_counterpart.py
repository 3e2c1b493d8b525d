"""The Telegram counterpart, held against the genuine python-telegram-bot client: texts, methods, refusals."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from telegram import (
    Bot,
    BotCommand,
    InlineKeyboardButton,
    InlineKeyboardMarkup,
    InputMediaDocument,
    InputMediaPhoto,
    ReplyParameters,
)
from telegram.error import (
    BadRequest,
    Forbidden,
    InvalidToken,
    NetworkError,
)

from tests.counterparts.telegram_rules import SPECIFICATION
from tests.counterparts.telegram_setting import Setting, refused, setting
from tests.counterparts.telegram_text import BadText, parse_html

PNG = b"\x89PNG\r\n\x1a\n" + b"0" * 200
HTML = "HTML"


@pytest.fixture
async def here() -> AsyncIterator[Setting]:
    async with setting() as made:
        yield made


def button(data: str = "x", text: str = "Go") -> InlineKeyboardMarkup:
    return InlineKeyboardMarkup([[InlineKeyboardButton(text, callback_data=data)]])


async def test_a_message_is_shown(here: Setting) -> None:
    sent = await here.bot.send_message(here.chat.id, "hello <b>you</b> &lt;&#128512;", parse_mode=HTML)
    [shown] = here.server.shown(here.chat)
    assert shown.text == "hello you <😀"
    assert shown.message_id == sent.message_id
    assert [(one.type, one.offset, one.length) for one in sent.entities] == [("bold", 6, 3)]
    assert here.server.called("sendMessage")[0].params["chat_id"] == here.chat.id


# texts


@pytest.mark.parametrize(
    ("source", "text", "entities"),
    [
        ("😀<b>x</b>", "😀x", [("bold", 2, 1)]),
        ("<pre><code class='language-py'>a</code></pre>", "a", [("pre", 0, 1)]),
        ("<code>a</code>", "a", [("code", 0, 1)]),
        ("<blockquote expandable>a</blockquote>", "a", [("expandable_blockquote", 0, 1)]),
        ('<span class="tg-spoiler">a</span><tg-spoiler>b</tg-spoiler>', "ab", [("spoiler", 0, 1), ("spoiler", 1, 1)]),
        ('<a href="https://a.b/?x=1&amp;y=2">a</a>', "a", [("text_link", 0, 1)]),
        ('<a href="javascript:x">a</a>', "a", []),
        ('<tg-emoji emoji-id="5368">👍</tg-emoji>', "👍", [("custom_emoji", 0, 2)]),
        ("<b>a<i>b</i></b>", "ab", [("bold", 0, 2), ("italic", 1, 1)]),
        ("<B>a</b ><u></u>", "a", [("bold", 0, 1)]),
        ("&nbsp;&apos;&quot;&#x41;&amp;lt;", '&nbsp;&apos;"A&lt;', []),
    ],
)
def test_html_becomes_text_and_entities(source: str, text: str, entities: list[tuple[str, int, int]]) -> None:
    found, marks = parse_html(source)
    assert found == text
    assert [(one["type"], one["offset"], one["length"]) for one in marks] == entities


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("<b>x", 'Can\'t find end tag corresponding to start tag "b"'),
        ("é<p>x</p>", 'Unsupported start tag "p" at byte offset 2'),
        ("a < b", 'Unsupported start tag "" at byte offset 2'),
        ("x</b>", "Unexpected end tag at byte offset 1"),
        ("<b><i>x</b></i>", 'Unmatched end tag at byte offset 7, expected "</i>", found "</b>"'),
        ("<b", "Unclosed start tag at byte offset 0"),
        ("<b>x</b", "Unclosed end tag at byte offset 4"),
        ("<span>x</span>", 'Tag "span" must have class "tg-spoiler" at byte offset 0'),
        ("<a href=x/y>x</a>", "Unexpected end of name token at byte offset 8"),
        ('<a href="x', "Unclosed start tag at byte offset 0"),
        ("<a href", 'Unclosed start tag "a" at byte offset 0'),
        ("<a =x>x</a>", 'Empty attribute name in the tag "a" at byte offset 0'),
        ("<tg-emoji>x</tg-emoji>", "Invalid custom emoji identifier specified"),
    ],
)
def test_html_faults(source: str, said: str) -> None:
    with pytest.raises(BadText) as caught:
        parse_html(source)
    assert str(caught.value) == said


async def test_html_faults_reach_the_client(here: Setting) -> None:
    with pytest.raises(BadRequest, match=r'^Can\'t parse entities: unsupported start tag "x" at byte offset 0$'):
        await here.bot.send_message(here.chat.id, "<x>", parse_mode=HTML)
    assert here.server.shown(here.chat) == []


async def test_urls_and_commands_are_found(here: Setting) -> None:
    sent = await here.bot.send_message(here.chat.id, "see https://a.b/c. /help <code>/no</code>", parse_mode=HTML)
    assert [one.type for one in sent.entities] == ["url", "bot_command", "code"]


# refusals of sending


async def test_text_too_long(here: Setting) -> None:
    await here.bot.send_message(here.chat.id, f"<b>{'x' * 4096}</b>", parse_mode=HTML)
    await refused(here.bot.send_message(here.chat.id, "x" * 4097), BadRequest, "Message is too long")


async def test_text_empty(here: Setting) -> None:
    await refused(here.bot.send_message(here.chat.id, ""), BadRequest, "Message text is empty")
    for blank in (" <b> </b>", "\u200b"):
        await refused(here.bot.send_message(here.chat.id, blank, HTML), BadRequest, "Text must be non-empty")
    await refused(here.bot.send_message_draft(here.chat.id, 5, " \t"), BadRequest, "Text must be non-empty")


async def test_caption_too_long(here: Setting) -> None:
    call = here.bot.send_photo(here.chat.id, PNG, caption="x" * 1025)
    await refused(call, BadRequest, "Message caption is too long")


async def test_chat_not_found(here: Setting) -> None:
    await refused(here.bot.send_message(5, "x"), BadRequest, "Chat not found")
    await refused(here.bot.send_message("@nobody", "x"), BadRequest, "Chat not found")


async def test_blocked(here: Setting) -> None:
    update = here.server.block(here.ada)
    assert update["my_chat_member"]["new_chat_member"]["status"] == "kicked"
    call = here.bot.send_message(here.chat.id, "x")
    await refused(call, Forbidden, "Forbidden: bot was blocked by the user")
    here.server.unblock(here.ada)
    await here.bot.send_message(here.chat.id, "x")


@pytest.mark.parametrize("kind", ["group", "supergroup"])
async def test_kicked(here: Setting, kind: str) -> None:
    chat = getattr(here.server.world, kind)("Room", here.ada)
    here.server.kick(chat, here.ada)
    await refused(here.bot.send_message(chat.id, "x"), Forbidden, f"Forbidden: bot was kicked from the {kind} chat")
    await refused(
        here.bot.send_chat_action(chat.id, "typing"), Forbidden, f"Forbidden: bot was kicked from the {kind} chat"
    )


async def test_left(here: Setting) -> None:
    chat = here.server.world.supergroup("Room", here.ada)
    assert await here.bot.leave_chat(chat.id)
    said = "Forbidden: bot is not a member of the supergroup chat"
    await refused(here.bot.send_message(chat.id, "x"), Forbidden, said)


async def test_not_enough_rights(here: Setting) -> None:
    chat = here.server.world.supergroup("Room", here.ada)
    chat.can_send = chat.can_send_media = False
    said = "Not enough rights to send text messages to the chat"
    await refused(here.bot.send_message(chat.id, "x"), BadRequest, said)
    await refused(here.bot.send_photo(chat.id, PNG), BadRequest, "Not enough rights to send photos to the chat")


async def test_threads(here: Setting) -> None:
    forum = here.server.world.forum("Forum", here.ada)
    topic = await here.bot.create_forum_topic(forum.id, "News")
    await here.bot.send_message(forum.id, "x", message_thread_id=topic.message_thread_id)
    await here.bot.send_message(forum.id, "y")
    assert [(one.text, one.thread) for one in here.server.shown(forum)] == [("x", topic.message_thread_id), ("y", None)]
    for wrong in (1, 999):
        call = here.bot.send_message(forum.id, "x", message_thread_id=wrong)
        await refused(call, BadRequest, "Message thread not found")
    await here.bot.send_chat_action(forum.id, "typing", message_thread_id=1)
    assert forum.actions == [("typing", 1)]
    call = here.bot.send_message(here.chat.id, "x", message_thread_id=7)
    await refused(call, BadRequest, "Message thread not found")


async def test_closed_topic(here: Setting) -> None:
    forum = here.server.world.forum("Forum", here.ada)
    topic = here.server.open_topic(forum, here.ada, "News")
    await here.bot.close_forum_topic(forum.id, topic.id)
    forum.bot = "member"
    await refused(here.bot.send_message(forum.id, "x", message_thread_id=topic.id), BadRequest, "Topic_closed")
    here.server.close_topic(forum, here.ada, topic.id, closed=False)
    await here.bot.send_message(forum.id, "x", message_thread_id=topic.id)
    here.server.delete_topic(forum, topic.id)
    call = here.bot.send_message(forum.id, "x", message_thread_id=topic.id)
    await refused(call, BadRequest, "Message thread not found")


async def test_an_answer_goes_to_the_topic_of_what_it_answers(here: Setting) -> None:
    forum = here.server.world.forum("Forum", here.ada)
    topic = here.server.open_topic(forum, here.ada, "News")
    said = here.server.say(forum, here.ada, "x", thread=topic.id)
    assert said["is_topic_message"]
    await here.bot.send_message(forum.id, "y", reply_parameters=ReplyParameters(said["message_id"]))
    lost = ReplyParameters(999, allow_sending_without_reply=True)
    await here.bot.send_message(forum.id, "z", reply_parameters=lost)
    assert [(one.text, one.thread) for one in here.server.shown(forum)] == [("y", topic.id), ("z", None)]


@pytest.mark.parametrize("kind", ["forum", "supergroup"])
async def test_rows_of_answers_are_no_topics(here: Setting, kind: str) -> None:
    chat = getattr(here.server.world, kind)("Room", here.ada)
    first = here.server.say(chat, here.ada, "x")
    second = here.server.say(chat, here.ada, "y", reply_to=first["message_id"])
    assert "message_thread_id" not in first
    assert second["message_thread_id"] == first["message_id"]
    assert "is_topic_message" not in second
    call = here.bot.send_message(chat.id, "z", message_thread_id=second["message_thread_id"])
    await refused(call, BadRequest, "Message thread not found")


async def test_reply_target_missing(here: Setting) -> None:
    target = ReplyParameters(99)
    call = here.bot.send_message(here.chat.id, "x", reply_parameters=target)
    await refused(call, BadRequest, "Message to be replied not found")
    lenient = ReplyParameters(99, allow_sending_without_reply=True)
    await here.bot.send_message(here.chat.id, "x", reply_parameters=lenient)
    said = here.server.say(here.chat, here.ada, "one two")
    await here.bot.send_message(here.chat.id, "y", reply_parameters=ReplyParameters(said["message_id"], quote="two"))
    assert [one.reply for one in here.server.shown(here.chat)] == [None, said["message_id"]]
    wrong = ReplyParameters(said["message_id"], quote="three")
    await refused(here.bot.send_message(here.chat.id, "y", reply_parameters=wrong), BadRequest, "Quote_text_invalid")


@pytest.mark.parametrize("data", ["é" * 33, ""])
async def test_callback_data(here: Setting, data: str) -> None:
    call = here.bot.send_message(here.chat.id, "x", reply_markup=button(data))
    await refused(call, BadRequest, "Button_data_invalid")


async def test_too_many_buttons(here: Setting) -> None:
    rows = [[InlineKeyboardButton(str(at), callback_data="x")] for at in range(101)]
    call = here.bot.send_message(here.chat.id, "x", reply_markup=InlineKeyboardMarkup(rows))
    await refused(call, BadRequest, "Reply markup is too long")
    call = here.bot.send_message(here.chat.id, "x", reply_markup=InlineKeyboardMarkup([[InlineKeyboardButton("x")]]))
    said = "Can't parse inline keyboard button: text buttons are unallowed in the inline keyboard"
    await refused(call, BadRequest, said)


# refusals of changing


async def test_edits(here: Setting) -> None:
    sent = await here.bot.send_message(here.chat.id, "one", reply_markup=button())
    await here.bot.edit_message_text("two", here.chat.id, sent.message_id)
    [shown] = here.server.shown(here.chat)
    assert (shown.text, shown.edits, shown.markup) == ("two", ["one"], None)
    with pytest.raises(BadRequest, match="Message is not modified"):
        await here.bot.edit_message_text("two", here.chat.id, sent.message_id)
    await here.bot.edit_message_reply_markup(here.chat.id, sent.message_id, reply_markup=button("y", "Yes"))
    assert here.server.shown(here.chat)[0].buttons == [("Yes", "y")]
    await refused(here.bot.edit_message_text("x", here.chat.id, 99), BadRequest, "Message to edit not found")
    said = here.server.say(here.chat, here.ada, "mine")
    call = here.bot.edit_message_text("x", here.chat.id, said["message_id"])
    await refused(call, BadRequest, "Message can't be edited")
    call = here.bot.edit_message_caption(here.chat.id, sent.message_id, caption="x")
    await refused(call, BadRequest, "There is no caption in the message to edit")


async def test_media_is_sent_and_edited(here: Setting) -> None:
    sent = await here.bot.send_photo(here.chat.id, PNG, caption="<i>c</i>", parse_mode=HTML)
    assert here.server.world.files[sent.photo[-1].file_id].data == PNG
    call = here.bot.edit_message_text("x", here.chat.id, sent.message_id)
    await refused(call, BadRequest, "There is no text in the message to edit")
    await here.bot.edit_message_caption(here.chat.id, sent.message_id, caption="d")
    await here.bot.edit_message_media(InputMediaDocument(b"doc", caption="e"), here.chat.id, sent.message_id)
    [shown] = here.server.shown(here.chat)
    assert (shown.kind, shown.text, shown.edits) == ("document", "e", ["c", "d"])
    for call in (
        here.bot.send_document(here.chat.id, b"x", filename="a.txt"),
        here.bot.send_audio(here.chat.id, b"x", duration=2),
        here.bot.send_voice(here.chat.id, b"x"),
        here.bot.send_video(here.chat.id, b"x"),
        here.bot.send_animation(here.chat.id, b"x"),
        here.bot.send_sticker(here.chat.id, b"x"),
        here.bot.send_location(here.chat.id, 1.5, 2.5),
        here.bot.send_contact(here.chat.id, "+1", "Bob"),
    ):
        await call
    kinds = ["document", "document", "audio", "voice", "video", "animation", "sticker", "location", "contact"]
    assert [one.kind for one in here.server.shown(here.chat)] == kinds


async def test_albums(here: Setting) -> None:
    sent = await here.bot.send_media_group(here.chat.id, [InputMediaPhoto(PNG, caption="a"), InputMediaPhoto(PNG)])
    assert len({one.media_group_id for one in sent}) == 1
    mixed: Any = [InputMediaPhoto(PNG), InputMediaDocument(b"x")]
    call = here.bot.send_media_group(here.chat.id, mixed)
    await refused(call, BadRequest, "Document can't be mixed with other media types")


async def test_files_refused(here: Setting) -> None:
    await refused(here.bot.send_photo(here.chat.id, b"no image"), BadRequest, "Image_process_failed")
    await refused(here.bot.send_document(here.chat.id, b""), BadRequest, "File must be non-empty")
    call = here.bot.send_document(here.chat.id, "no-such-id")
    await refused(call, BadRequest, "Wrong file identifier/http url specified")


async def test_deletes(here: Setting) -> None:
    sent = await here.bot.send_message(here.chat.id, "x")
    assert await here.bot.delete_message(here.chat.id, sent.message_id)
    assert here.server.shown(here.chat) == []
    call = here.bot.delete_message(here.chat.id, sent.message_id)
    await refused(call, BadRequest, "Message to delete not found")
    group = here.server.world.group("Room", here.ada)
    said = here.server.say(group, here.ada, "x")
    await refused(here.bot.delete_message(group.id, said["message_id"]), BadRequest, "Message can't be deleted")


async def test_reactions(here: Setting) -> None:
    said = here.server.say(here.chat, here.ada, "x")
    await here.bot.set_message_reaction(here.chat.id, said["message_id"], "👀")
    assert here.chat.reactions[said["message_id"], here.server.world.bot.id] == [{"type": "emoji", "emoji": "👀"}]
    call = here.bot.set_message_reaction(here.chat.id, said["message_id"], "🧵")
    await refused(call, BadRequest, "Reaction_invalid")
    await refused(here.bot.set_message_reaction(here.chat.id, 99, "👀"), BadRequest, "Message to react not found")


async def test_presses(here: Setting) -> None:
    await here.bot.send_message(here.chat.id, "x", reply_markup=button("go:1", "Go"))
    pressed = here.server.press(here.chat, here.ada, "Go")
    [update] = await here.polled()
    assert update.callback_query.data == "go:1"
    await update.callback_query.answer("ok")
    answers = here.server.query_of(pressed).answers
    assert answers is not None
    assert answers[0]["text"] == "ok"
    here.server.expire_queries()
    said = "Query is too old and response timeout expired or query id is invalid"
    await refused(update.callback_query.answer(), BadRequest, said)
    await refused(here.bot.answer_callback_query("5"), BadRequest, said)


# files of people


async def test_files_of_people(here: Setting) -> None:
    here.server.send_document(here.chat, here.ada, b"0123456789", name="a.txt", caption="see")
    [update] = await here.polled()
    assert (update.message.document.file_name, update.message.caption) == ("a.txt", "see")
    file = await update.message.document.get_file()
    assert bytes(await file.download_as_bytearray()) == b"0123456789"
    here.server.world.files[file.file_id].gone = True
    with pytest.raises(InvalidToken, match="Not Found"):
        await file.download_as_bytearray()


async def test_a_file_too_big(here: Setting) -> None:
    sent = here.server.send_video(here.chat, here.ada, b"x", size=20 * 2**20 + 1)
    await refused(here.bot.get_file(sent["video"]["file_id"]), BadRequest, "File is too big")
    said = "Wrong file_id or the file is temporarily unavailable"
    await refused(here.bot.get_file("nothing"), BadRequest, said)


async def test_a_download_is_cut(here: Setting) -> None:
    sent = here.server.send_photo(here.chat, here.ada, PNG * 1000, cut=True)
    file = await here.bot.get_file(sent["photo"][-1]["file_id"])
    with pytest.raises(NetworkError):
        await file.download_as_bytearray()


# the bot and its chats


async def test_the_bot_and_chats(here: Setting) -> None:
    me = await here.bot.get_me()
    assert (me.username, me.can_read_all_group_messages) == ("hermes_bot", True)
    forum = here.server.world.forum("Forum", here.ada)
    assert (await here.bot.get_chat(forum.id)).is_forum
    assert (await here.bot.get_chat_member(forum.id, here.ada.id)).status == "creator"
    assert (await here.bot.get_chat_member(forum.id, me.id)).status == "administrator"
    await refused(here.bot.get_chat_member(forum.id, 5), BadRequest, "Member not found")
    assert len(await here.bot.get_chat_administrators(forum.id)) == 2
    await here.bot.set_my_commands([BotCommand("help", "Tell")])
    assert [one.command for one in await here.bot.get_my_commands()] == ["help"]
    await refused(here.bot.set_my_commands([BotCommand("Help", "Tell")]), BadRequest, "Bot_command_invalid")
    await here.bot.set_my_description("x")
    assert await here.bot.send_message_draft(here.chat.id, 5, "dra")
    assert here.server.methods.drafts[0]["text"] == "dra"
    assert await here.bot.log_out()


async def test_topics_of_the_bot(here: Setting) -> None:
    forum = here.server.world.forum("Forum", here.ada)
    made = await here.bot.create_forum_topic(forum.id, "A")
    await here.bot.edit_forum_topic(forum.id, made.message_thread_id, name="B")
    assert forum.topics[made.message_thread_id].name == "B"
    await here.bot.close_forum_topic(forum.id, made.message_thread_id)
    await refused(here.bot.close_forum_topic(forum.id, made.message_thread_id), BadRequest, "Topic_not_modified")
    await here.bot.reopen_forum_topic(forum.id, made.message_thread_id)
    await here.bot.delete_forum_topic(forum.id, made.message_thread_id)
    assert list(forum.topics) == [1]
    await refused(here.bot.create_forum_topic(here.chat.id, "A"), BadRequest, "The chat is not a forum")


async def test_token(here: Setting) -> None:
    wrong = Bot("7:wrong", base_url=here.server.base_url)
    with pytest.raises(InvalidToken):
        await wrong.initialize()
    await wrong.request.shutdown()
    here.server.revoke()
    with pytest.raises(InvalidToken, match="Unauthorized"):
        await here.bot.get_me()
    here.server.heal()
    await here.bot.get_me()


async def test_violations(here: Setting) -> None:
    with pytest.raises(BadRequest, match="unknown parameter 'colour'"):
        await here.bot.send_message(here.chat.id, "x", api_kwargs={"colour": "red"})
    with pytest.raises(BadRequest, match="chat_id: field required"):
        await here.bot.send_message("", "x", api_kwargs={"chat_id": None})
    wrong = ReplyParameters(1, api_kwargs={"nested": 1})
    with pytest.raises(BadRequest, match=r"unknown field reply_parameters\.nested"):
        await here.bot.send_message(here.chat.id, "x", reply_parameters=wrong)
    with pytest.raises(NetworkError, match="not modelled"):
        await here.bot.send_dice(here.chat.id)
    # the published specification, where it is there, has a word of its own beside the models
    assert len(here.server.violations) == (5 if SPECIFICATION.exists() else 4)
    assert here.server.shown(here.chat) == []
    here.server.violations.clear()
