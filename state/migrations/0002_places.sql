-- What is known of the places of the platforms: how far each was read, and which have a new id.

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
