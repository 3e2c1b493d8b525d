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
