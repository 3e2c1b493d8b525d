-- The oldest program that may read and write this database, by the number of the last migration that it knows. A
-- migration that only adds leaves it; one that takes away raises it, a version after the last one that needs it.
CREATE TABLE compatibility (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    usable_from INTEGER NOT NULL
);
INSERT INTO compatibility (id, usable_from) VALUES (1, 5);
