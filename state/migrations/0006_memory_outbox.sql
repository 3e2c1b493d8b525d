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
