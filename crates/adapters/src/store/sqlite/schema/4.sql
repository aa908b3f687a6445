-- The audit log: for each namespace a chain of records, each sealed with the one before it. The row of a chain
-- says where it ends, under a seal of its own, so that rows cannot be cut off.
CREATE TABLE audit_chains (
    id        INTEGER PRIMARY KEY,
    namespace TEXT    NOT NULL UNIQUE,
    -- The ids of the keys that its first record was sealed with, and its last.
    first_key BLOB    NOT NULL,
    key       BLOB    NOT NULL,
    seq       INTEGER NOT NULL,
    mac       BLOB    NOT NULL,
    seal      BLOB    NOT NULL
) STRICT;
-- The key is the chain's id and the record's number in one integer, as in `journal`.
CREATE TABLE audit (
    key  INTEGER PRIMARY KEY,
    body TEXT    NOT NULL,
    mac  BLOB    NOT NULL
) STRICT;

-- How tools were used, hour by hour.
CREATE TABLE usage_of_calls (
    namespace TEXT    NOT NULL,
    hour      INTEGER NOT NULL,
    agent     TEXT    NOT NULL,
    tool      TEXT    NOT NULL,
    source    TEXT    NOT NULL,
    calls     INTEGER NOT NULL,
    errors    INTEGER NOT NULL,
    latency   TEXT    NOT NULL,
    PRIMARY KEY (namespace, hour, agent, tool, source)
) STRICT, WITHOUT ROWID;
CREATE TABLE usage_of_queries (
    namespace TEXT    NOT NULL,
    hour      INTEGER NOT NULL,
    agent     TEXT    NOT NULL,
    tally     TEXT    NOT NULL,
    PRIMARY KEY (namespace, hour, agent)
) STRICT, WITHOUT ROWID;
