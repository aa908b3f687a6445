-- Webhooks: where the events of a query are posted. `seq` is the last entry whose events were acknowledged; the journal is
-- the outbox.
CREATE TABLE webhooks (
    query    INTEGER NOT NULL,
    id       TEXT    NOT NULL,
    target   TEXT    NOT NULL,
    seq      INTEGER NOT NULL,
    attempts INTEGER NOT NULL,
    next_at  INTEGER NOT NULL,
    PRIMARY KEY (query, id)
) STRICT, WITHOUT ROWID;
CREATE INDEX webhooks_by_time ON webhooks (next_at);
CREATE TRIGGER webhooks_go_with_their_query AFTER DELETE ON queries BEGIN
    DELETE FROM webhooks WHERE query = old.id;
END;
