-- How far the beginning of a log was let go after its time, and the seal of the last record that was: what the
-- first one that is kept builds on.
ALTER TABLE audit_chains ADD COLUMN let_go INTEGER NOT NULL DEFAULT 0;
ALTER TABLE audit_chains ADD COLUMN let_go_mac BLOB NOT NULL DEFAULT x'';

-- What the records of a whole block have in them, so that a search passes over those that cannot hold what it
-- looks for. The key is that of the block's last record. A block without a row is read: rows are added behind the
-- writer's back, when there is time, and cost those who append nothing.
CREATE TABLE audit_blocks (
    key      INTEGER PRIMARY KEY,
    -- The earliest and the latest time, in milliseconds since 1970.
    first_at INTEGER NOT NULL,
    last_at  INTEGER NOT NULL,
    -- Four bytes for each actor, tool, query and action, in order, each once.
    terms    BLOB    NOT NULL
) STRICT;
