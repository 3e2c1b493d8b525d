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
