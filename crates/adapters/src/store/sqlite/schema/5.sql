-- Conversations: what completed queries have said to each other. A row goes when nothing is left in it, or when
-- nothing was added for as long as its last query said.
CREATE TABLE conversations (
    id        INTEGER PRIMARY KEY,
    namespace TEXT    NOT NULL,
    memory    TEXT    NOT NULL,
    name      TEXT    NOT NULL,
    -- How many messages were ever added: their numbers are not given twice.
    messages  INTEGER NOT NULL,
    -- The exchange that was added last.
    latest    INTEGER NOT NULL,
    -- Milliseconds since 1970.
    expires   INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX conversations_by_name ON conversations (namespace, memory, name);
CREATE INDEX conversations_by_use ON conversations (namespace, latest);
CREATE INDEX conversations_by_expiry ON conversations (expires);

-- What one query has said, whole: histories are cut between these rows and never within one.
CREATE TABLE exchanges (
    id           INTEGER PRIMARY KEY,
    conversation INTEGER NOT NULL,
    query        BLOB    NOT NULL,
    name         TEXT    NOT NULL,
    at           INTEGER NOT NULL,
    -- The number of its first message in the conversation.
    first        INTEGER NOT NULL,
    messages     INTEGER NOT NULL,
    tokens       INTEGER NOT NULL,
    body         TEXT    NOT NULL
) STRICT;
CREATE INDEX exchanges_by_conversation ON exchanges (conversation, id);
CREATE UNIQUE INDEX exchanges_by_query ON exchanges (query);
CREATE TRIGGER exchanges_go_with_their_conversation AFTER DELETE ON conversations BEGIN
    DELETE FROM exchanges WHERE conversation = old.id;
END;

-- The conversation that a query takes part in, as `<memory>/<name>`, and the document with what was said before.
-- A query that has not ended has no `expires`.
ALTER TABLE queries ADD COLUMN conversation TEXT;
CREATE INDEX queries_open_in_conversation ON queries (namespace, conversation)
    WHERE conversation IS NOT NULL AND expires IS NULL;
ALTER TABLE queries ADD COLUMN history INTEGER;
CREATE INDEX queries_by_history ON queries (history) WHERE history IS NOT NULL;
