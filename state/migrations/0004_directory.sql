-- Chats by name, and the chat of each platform that is its home.

CREATE TABLE directory (
    platform TEXT NOT NULL,
    account TEXT NOT NULL,
    chat_id TEXT NOT NULL,
    thread_id TEXT NOT NULL,
    name TEXT NOT NULL,
    address_json TEXT NOT NULL,
    PRIMARY KEY (platform, account, chat_id, thread_id)
) WITHOUT ROWID;

CREATE TABLE homes (
    platform TEXT PRIMARY KEY,
    address_json TEXT NOT NULL,
    set_by TEXT NOT NULL
) WITHOUT ROWID;
