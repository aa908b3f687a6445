-- What queries are found by: their labels, session and target. The rows of a query follow its journal. A name is
-- `session`, `target` or `label:` and the key of a label; the target is written as `agent/<name>`.
CREATE TABLE query_terms (
    query     INTEGER NOT NULL,
    name      TEXT    NOT NULL,
    value     TEXT    NOT NULL,
    namespace TEXT    NOT NULL,
    uid       BLOB    NOT NULL,
    PRIMARY KEY (query, name)
) STRICT, WITHOUT ROWID;
CREATE INDEX query_terms_by_value ON query_terms (namespace, name, value, uid);
CREATE TRIGGER query_terms_go_with_their_query AFTER DELETE ON queries BEGIN
    DELETE FROM query_terms WHERE query = old.id;
END;
-- What is no JSON any more is not refused here: that would keep a whole store from opening for one query.
INSERT INTO query_terms (query, name, value, namespace, uid)
    SELECT id, 'target',
        coalesce(json_extract(body, '$.spec.target'), 'agent') || '/' || json_extract(body, '$.spec.agent'), namespace, uid
    FROM queries JOIN journal ON key = id << 24 | 1
    WHERE CASE WHEN json_valid(body) THEN json_extract(body, '$.spec.agent') END IS NOT NULL;
INSERT INTO query_terms (query, name, value, namespace, uid)
    SELECT id, 'session', json_extract(body, '$.spec.sessionId'), namespace, uid
    FROM queries JOIN journal ON key = id << 24 | 1
    WHERE CASE WHEN json_valid(body) THEN json_extract(body, '$.spec.sessionId') END IS NOT NULL;
INSERT INTO query_terms (query, name, value, namespace, uid)
    SELECT queries.id, 'label:' || label.key, label.value, namespace, uid
    FROM queries JOIN journal ON journal.key = queries.id << 24 | 1
    JOIN json_each(coalesce(
        CASE WHEN json_valid(head) THEN json_extract(head, '$.labels') END,
        CASE WHEN json_valid(body) THEN json_extract(body, '$.spec.labels') END,
        '{}'
    )) AS label;

-- A list of the queries in one state. Two indexes, so that a query is moved between them once, when it ends.
CREATE INDEX queries_ended ON queries (namespace, status, uid) WHERE expires IS NOT NULL;
CREATE INDEX queries_open ON queries (namespace, uid) WHERE expires IS NULL;
