-- The process that may write. Opening the store raises the number, and every commit compares it.
CREATE TABLE writer (
    only  INTEGER PRIMARY KEY CHECK (only = 1),
    epoch INTEGER NOT NULL
) STRICT;
INSERT INTO writer (only, epoch) VALUES (1, 0);

-- One row for each query. `head` is what the journal folds to; the other columns are copies of what
-- is looked for, so that a head is parsed only when it is wanted.
CREATE TABLE queries (
    id         INTEGER PRIMARY KEY,
    uid        BLOB    NOT NULL,
    namespace  TEXT    NOT NULL,
    name       TEXT    NOT NULL,
    status     TEXT    NOT NULL,
    seq        INTEGER NOT NULL,
    -- Of the process that wrote last.
    epoch      INTEGER NOT NULL,
    -- Whether a process that dies now leaves work behind.
    unfinished INTEGER NOT NULL,
    -- Milliseconds since 1970.
    deadline   INTEGER,
    -- The size of the journal: whether reading it takes long.
    bytes      INTEGER NOT NULL,
    head       TEXT    NOT NULL
) STRICT;
CREATE UNIQUE INDEX queries_by_name ON queries (namespace, name);
CREATE UNIQUE INDEX queries_by_age ON queries (namespace, uid);
CREATE INDEX queries_by_deadline ON queries (deadline) WHERE deadline IS NOT NULL;
CREATE INDEX queries_unfinished ON queries (uid) WHERE unfinished = 1;

-- The entries of all journals. The key is the query's id and the entry's number in one integer: a table
-- by integer grows at its end without being rearranged and keeps rows of a few kilobytes in place, so a
-- commit writes a quarter fewer pages than with (query, seq) WITHOUT ROWID.
CREATE TABLE journal (
    key   INTEGER PRIMARY KEY,
    query INTEGER NOT NULL AS (key >> 24),
    seq   INTEGER NOT NULL AS (key & 16777215),
    at    INTEGER NOT NULL,
    body  TEXT    NOT NULL
) STRICT;

-- Texts that many queries share, by the SHA-256 of their content.
CREATE TABLE documents (
    hash BLOB PRIMARY KEY NOT NULL,
    body TEXT NOT NULL
) STRICT;
