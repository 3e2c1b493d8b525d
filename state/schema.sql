-- The whole schema: the sum of migrations/ (tests/unit/state/test_migrate.py compares them).
-- Times are microseconds since 1970, UTC, and never order anything: the integer ids do. Expiries are
-- seconds of the boot clock beside the id of that boot.

CREATE TABLE inbox (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    dedup_id TEXT NOT NULL,
    platform TEXT NOT NULL,
    account TEXT NOT NULL,
    kind TEXT NOT NULL,
    key TEXT NOT NULL,
    message_id TEXT NOT NULL,
    sender_id TEXT NOT NULL,
    payload TEXT NOT NULL,
    received_at INTEGER NOT NULL,
    fate TEXT NOT NULL DEFAULT 'waiting',
    detail TEXT NOT NULL DEFAULT '',
    turn_id TEXT,
    owner TEXT,
    attempts INTEGER NOT NULL DEFAULT 0,
    settled_at INTEGER
);
CREATE UNIQUE INDEX inbox_identity ON inbox (platform, account, dedup_id);
CREATE INDEX inbox_message ON inbox (platform, account, message_id);
CREATE INDEX inbox_open ON inbox (id) WHERE fate IN ('waiting', 'running');
CREATE INDEX inbox_key ON inbox (key, id);
CREATE INDEX inbox_turn ON inbox (turn_id) WHERE turn_id IS NOT NULL;

CREATE TABLE sessions (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    person TEXT NOT NULL,
    title TEXT,
    model TEXT,
    prompt BLOB,
    prompt_reason TEXT,
    parent_id TEXT REFERENCES sessions (id),
    parent_from INTEGER,
    parent_upto INTEGER,
    lineage TEXT NOT NULL,
    reason TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    activity INTEGER NOT NULL DEFAULT 0,
    ended_at INTEGER
);
CREATE INDEX sessions_person ON sessions (person, activity DESC);
CREATE INDEX sessions_activity ON sessions (activity DESC);
CREATE INDEX sessions_title ON sessions (title COLLATE NOCASE) WHERE title IS NOT NULL;
CREATE INDEX sessions_parent ON sessions (parent_id) WHERE parent_id IS NOT NULL;

CREATE TABLE bindings (
    key TEXT PRIMARY KEY,
    session_id TEXT REFERENCES sessions (id),
    state TEXT NOT NULL,
    claim_owner TEXT,
    claim_boot TEXT,
    claim_expires REAL,
    address_json TEXT NOT NULL,
    moved_to TEXT,
    settings_json TEXT NOT NULL DEFAULT '{}',
    version INTEGER NOT NULL DEFAULT 1,
    updated_at INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX bindings_session ON bindings (session_id) WHERE session_id IS NOT NULL;

CREATE TABLE leases (
    session_id TEXT PRIMARY KEY REFERENCES sessions (id),
    turn_id TEXT NOT NULL,
    owner TEXT NOT NULL,
    fence INTEGER NOT NULL,
    held INTEGER NOT NULL,
    boot_id TEXT NOT NULL,
    acquired_at REAL NOT NULL,
    expires_at REAL NOT NULL
) WITHOUT ROWID;

CREATE TABLE turns (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    session_id TEXT NOT NULL REFERENCES sessions (id),
    key TEXT NOT NULL,
    state TEXT NOT NULL,
    fence INTEGER NOT NULL,
    attempts INTEGER NOT NULL,
    detail TEXT NOT NULL DEFAULT '',
    first_row INTEGER NOT NULL,
    started_at INTEGER NOT NULL,
    ended_at INTEGER
);
CREATE INDEX turns_session ON turns (session_id, seq);
CREATE INDEX turns_running ON turns (seq) WHERE state = 'running';

CREATE TABLE transcript (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    session_id TEXT NOT NULL REFERENCES sessions (id),
    turn_id TEXT NOT NULL,
    fence INTEGER NOT NULL,
    role TEXT NOT NULL,
    content TEXT NOT NULL,
    wire BLOB,
    tool_calls TEXT,
    tool_call_id TEXT,
    tool_name TEXT,
    tool_status TEXT,
    reasoning TEXT,
    finish_reason TEXT,
    platform_message_id TEXT,
    author TEXT,
    audience TEXT,
    extract TEXT,
    active INTEGER NOT NULL DEFAULT 1,
    created_at INTEGER NOT NULL
);
-- Serves replay: the active rows of a session in order of insertion.
CREATE INDEX transcript_replay ON transcript (session_id, id) WHERE active = 1;
CREATE INDEX transcript_inactive ON transcript (session_id, id) WHERE active = 0;
CREATE INDEX transcript_message ON transcript (platform_message_id) WHERE platform_message_id IS NOT NULL;

-- What is searched: what people said and were told whole, of tools their names and a bounded extract,
-- as soon as the result is there.
CREATE VIEW search_rows AS
SELECT
    id,
    CASE WHEN role = 'tool' THEN '' ELSE content END AS content,
    coalesce(tool_name, '') AS tool,
    CASE WHEN role = 'tool' THEN coalesce(extract, substr(content, 1, 2000)) ELSE coalesce(extract, '') END AS extract
FROM transcript
WHERE role <> 'tool' OR wire IS NOT NULL;

-- The same as one text. The two line ends give the last two characters of it trigrams of their own,
-- so that every term of one or two characters is the beginning of some trigram.
CREATE VIEW search_texts AS
SELECT id, content || char(10) || tool || char(10) || extract || char(10) || char(10) AS text
FROM search_rows;

CREATE VIRTUAL TABLE search_words USING fts5 (
    content, tool, extract,
    content = 'search_rows', content_rowid = 'id', tokenize = 'unicode61 remove_diacritics 2'
);
-- No positions are kept: hits are verified against the row.
CREATE VIRTUAL TABLE search_grams USING fts5 (
    text,
    content = 'search_texts', content_rowid = 'id', tokenize = 'trigram', detail = 'none', columnsize = 0
);
-- Merging the index is the writer thread's work between commits and when idle (state/search.py): FTS5's own
-- merging makes single commits slow. `crisismerge` is the backstop.
INSERT INTO search_words (search_words, rank) VALUES ('automerge', 0), ('usermerge', 16), ('crisismerge', 1000);
INSERT INTO search_grams (search_grams, rank) VALUES ('automerge', 0), ('usermerge', 16), ('crisismerge', 1000);
CREATE VIRTUAL TABLE search_terms USING fts5vocab ('search_grams', 'instance');

CREATE TRIGGER search_insert AFTER INSERT ON transcript
WHEN NEW.role <> 'tool' OR NEW.wire IS NOT NULL
BEGIN
    INSERT INTO search_words (rowid, content, tool, extract)
    SELECT id, content, tool, extract FROM search_rows WHERE id = NEW.id;
    INSERT INTO search_grams (rowid, text) SELECT id, text FROM search_texts WHERE id = NEW.id;
END;
CREATE TRIGGER search_forget BEFORE UPDATE OF content, tool_name, extract ON transcript
WHEN OLD.role <> 'tool' OR OLD.wire IS NOT NULL
BEGIN
    INSERT INTO search_words (search_words, rowid, content, tool, extract)
    SELECT 'delete', id, content, tool, extract FROM search_rows WHERE id = OLD.id;
    INSERT INTO search_grams (search_grams, rowid, text)
    SELECT 'delete', id, text FROM search_texts WHERE id = OLD.id;
END;
CREATE TRIGGER search_update AFTER UPDATE OF content, tool_name, extract ON transcript
WHEN NEW.role <> 'tool' OR NEW.wire IS NOT NULL
BEGIN
    INSERT INTO search_words (rowid, content, tool, extract)
    SELECT id, content, tool, extract FROM search_rows WHERE id = NEW.id;
    INSERT INTO search_grams (rowid, text) SELECT id, text FROM search_texts WHERE id = NEW.id;
END;
CREATE TRIGGER search_delete BEFORE DELETE ON transcript
WHEN OLD.role <> 'tool' OR OLD.wire IS NOT NULL
BEGIN
    INSERT INTO search_words (search_words, rowid, content, tool, extract)
    SELECT 'delete', id, content, tool, extract FROM search_rows WHERE id = OLD.id;
    INSERT INTO search_grams (search_grams, rowid, text)
    SELECT 'delete', id, text FROM search_texts WHERE id = OLD.id;
END;

CREATE TABLE outbox (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    platform TEXT NOT NULL,
    account TEXT NOT NULL,
    chat TEXT NOT NULL,
    address_json TEXT NOT NULL,
    kind TEXT NOT NULL,
    state TEXT NOT NULL,
    session_id TEXT,
    turn_id TEXT,
    event_id INTEGER,
    reply_to TEXT,
    blocks BLOB NOT NULL,
    created_at INTEGER NOT NULL,
    not_before INTEGER
);
CREATE INDEX outbox_ready ON outbox (platform, account, chat, seq) WHERE state = 'ready';
CREATE INDEX outbox_open ON outbox (state, seq) WHERE state IN ('ready', 'draft', 'parked');
CREATE INDEX outbox_turn ON outbox (turn_id) WHERE turn_id IS NOT NULL;
CREATE INDEX outbox_event ON outbox (event_id) WHERE event_id IS NOT NULL;

CREATE TABLE chunks (
    id TEXT PRIMARY KEY,
    delivery_id TEXT NOT NULL REFERENCES outbox (id) ON DELETE CASCADE,
    number INTEGER NOT NULL,
    payload BLOB NOT NULL,
    plain BLOB NOT NULL,
    state TEXT NOT NULL,
    edits TEXT,
    message_ids TEXT NOT NULL DEFAULT '[]',
    tries INTEGER NOT NULL DEFAULT 0,
    error TEXT,
    owner TEXT
);
CREATE INDEX chunks_order ON chunks (delivery_id, number);
CREATE INDEX chunks_sending ON chunks (id) WHERE state = 'sending';

-- Which delivery a message of ours in a chat belongs to.
CREATE TABLE receipts (
    platform TEXT NOT NULL,
    account TEXT NOT NULL,
    message_id TEXT NOT NULL,
    chat TEXT NOT NULL,
    delivery_id TEXT NOT NULL REFERENCES outbox (id) ON DELETE CASCADE,
    PRIMARY KEY (platform, account, message_id, chat)
) WITHOUT ROWID;
CREATE INDEX receipts_delivery ON receipts (delivery_id);

CREATE TABLE holds (
    chat TEXT PRIMARY KEY,
    until INTEGER NOT NULL,
    reason TEXT NOT NULL
) WITHOUT ROWID;

CREATE TABLE approvals (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    kind TEXT NOT NULL,
    session_id TEXT NOT NULL,
    turn_id TEXT NOT NULL,
    call_id TEXT NOT NULL,
    asked TEXT NOT NULL,
    question TEXT NOT NULL,
    state TEXT NOT NULL,
    answer TEXT,
    answered_by TEXT,
    boot_id TEXT NOT NULL,
    expires_at REAL NOT NULL,
    created_at INTEGER NOT NULL
);
CREATE UNIQUE INDEX approvals_call ON approvals (turn_id, call_id);
CREATE INDEX approvals_pending ON approvals (seq) WHERE state = 'pending';

CREATE TABLE handoffs (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    session_id TEXT NOT NULL REFERENCES sessions (id),
    source_key TEXT NOT NULL,
    target TEXT NOT NULL,
    asked_by TEXT NOT NULL,
    state TEXT NOT NULL,
    token TEXT,
    owner TEXT,
    claim_boot TEXT,
    claim_expires REAL,
    thread_id TEXT,
    reason TEXT,
    created_at INTEGER NOT NULL,
    ended_at INTEGER
);
-- One open hand-off a session: two at once could give it two owners.
CREATE UNIQUE INDEX handoffs_open ON handoffs (session_id) WHERE state IN ('pending', 'running');

CREATE TABLE usage (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    session_id TEXT NOT NULL,
    turn_id TEXT,
    model TEXT NOT NULL,
    input_tokens INTEGER NOT NULL,
    output_tokens INTEGER NOT NULL,
    cached_tokens INTEGER NOT NULL,
    request_bytes INTEGER NOT NULL,
    prefix_bytes INTEGER NOT NULL,
    break_reason TEXT,
    seconds REAL NOT NULL,
    created_at INTEGER NOT NULL
);
CREATE INDEX usage_session ON usage (session_id);
CREATE INDEX usage_turn ON usage (turn_id) WHERE turn_id IS NOT NULL;

CREATE TABLE processes (
    pgid INTEGER NOT NULL,
    started INTEGER NOT NULL,
    boot_id TEXT NOT NULL,
    turn_id TEXT NOT NULL,
    call_id TEXT NOT NULL,
    owner TEXT NOT NULL,
    PRIMARY KEY (boot_id, pgid, started)
) WITHOUT ROWID;

-- How far each channel of a platform was read without a gap, and which chats have a new id.
CREATE TABLE cursors (
    platform TEXT NOT NULL,
    account TEXT NOT NULL,
    channel TEXT NOT NULL,
    cursor TEXT NOT NULL,
    PRIMARY KEY (platform, account, channel)
) WITHOUT ROWID;

CREATE TABLE moves (
    platform TEXT NOT NULL,
    old TEXT NOT NULL,
    new TEXT NOT NULL,
    PRIMARY KEY (platform, old)
) WITHOUT ROWID;

-- Strangers that an owner lets in: codes that wait for approval, those let in, wrong guesses.
CREATE TABLE pairing_codes (
    platform TEXT NOT NULL,
    sender_id TEXT NOT NULL,
    name TEXT NOT NULL,
    salt BLOB NOT NULL,
    digest BLOB NOT NULL,
    boot_id TEXT NOT NULL,
    expires_at REAL NOT NULL,
    created_at INTEGER NOT NULL,
    PRIMARY KEY (platform, sender_id)
) WITHOUT ROWID;

CREATE TABLE paired (
    platform TEXT NOT NULL,
    sender_id TEXT NOT NULL,
    name TEXT NOT NULL,
    role TEXT NOT NULL,
    approved_by TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    PRIMARY KEY (platform, sender_id)
) WITHOUT ROWID;

-- Kept over restarts, or a restart would be a way around the lock-out. One row a wrong guess.
CREATE TABLE pairing_failures (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    platform TEXT NOT NULL,
    created_at INTEGER NOT NULL
);

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

-- The oldest program that may read and write this database, by the number of the last migration that it knows.
CREATE TABLE compatibility (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    usable_from INTEGER NOT NULL
);
INSERT INTO compatibility (id, usable_from) VALUES (1, 5);

-- What an external memory has still to be told: written with what it is about, sent in order, deleted when it arrived.
CREATE TABLE memory_outbox (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    provider TEXT NOT NULL,
    idem TEXT NOT NULL,
    kind TEXT NOT NULL,
    session_id TEXT NOT NULL,
    turn_id TEXT,
    label TEXT NOT NULL,
    payload TEXT NOT NULL,
    state TEXT NOT NULL DEFAULT 'waiting',
    attempts INTEGER NOT NULL DEFAULT 0,
    detail TEXT NOT NULL DEFAULT '',
    owner TEXT,
    claim_boot TEXT,
    claim_expires REAL,
    created_at INTEGER NOT NULL
);
CREATE UNIQUE INDEX memory_outbox_identity ON memory_outbox (provider, idem);
CREATE INDEX memory_outbox_waiting ON memory_outbox (provider, id) WHERE state = 'waiting';

-- What the memory inside the daemon holds: a text and its vector (float32, little-endian), by place.
CREATE TABLE local_memories (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    place TEXT NOT NULL,
    idem TEXT NOT NULL,
    session_id TEXT NOT NULL,
    text TEXT NOT NULL,
    space TEXT NOT NULL,
    vector BLOB NOT NULL,
    created_at INTEGER NOT NULL
);
CREATE UNIQUE INDEX local_memories_identity ON local_memories (place, idem);
CREATE INDEX local_memories_place ON local_memories (place, space, id);
CREATE INDEX local_memories_session ON local_memories (session_id);
