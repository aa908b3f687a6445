-- Queries with work wait their turn by namespace.
DROP INDEX queries_unfinished;
CREATE INDEX queries_with_work ON queries (namespace, uid) WHERE unfinished = 1;

-- A document goes with the last query that refers to it.
CREATE TABLE documents_by_id (
    id   INTEGER PRIMARY KEY,
    hash BLOB NOT NULL UNIQUE,
    body TEXT NOT NULL
) STRICT;
INSERT INTO documents_by_id (hash, body) SELECT hash, body FROM documents;
DROP TABLE documents;
ALTER TABLE documents_by_id RENAME TO documents;
ALTER TABLE queries ADD COLUMN toolset INTEGER;
-- What is no JSON any more is not refused here: that would keep a whole store from opening for one query.
UPDATE queries SET toolset = (
    SELECT documents.id FROM journal JOIN documents
    ON hash = CASE WHEN json_valid(journal.body) THEN unhex(json_extract(journal.body, '$.spec.toolset')) END
    WHERE key = (queries.id << 24 | 1)
);
CREATE INDEX queries_by_toolset ON queries (toolset);

-- Until when a query that has ended is kept, in milliseconds since 1970. So far it was for ever; from now on
-- it is for 30 days, unless the query says otherwise.
ALTER TABLE queries ADD COLUMN expires INTEGER;
UPDATE queries SET expires = CASE WHEN json_valid(head) THEN json_extract(head, '$.updatedAt') + 2592000000 END
    WHERE status IN ('completed', 'failed', 'cancelled');
CREATE INDEX queries_by_expiry ON queries (expires) WHERE expires IS NOT NULL;

-- Requests under the keys that their clients gave them, and the queries that answered them. `expires` is set
-- when the query is deleted: so long a repetition is told that it is.
CREATE TABLE requests (
    namespace   TEXT NOT NULL,
    actor       TEXT NOT NULL,
    route       TEXT NOT NULL,
    key         TEXT NOT NULL,
    fingerprint BLOB NOT NULL,
    uid         BLOB NOT NULL,
    name        TEXT NOT NULL,
    expires     INTEGER,
    PRIMARY KEY (namespace, actor, route, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX requests_by_query ON requests (uid);
CREATE INDEX requests_by_expiry ON requests (expires) WHERE expires IS NOT NULL;
