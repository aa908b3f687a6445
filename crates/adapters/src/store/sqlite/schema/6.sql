-- What clients have described: agents, models, tools and so on. `body` has labels, annotations and the spec.
CREATE TABLE resources (
    kind       TEXT    NOT NULL,
    namespace  TEXT    NOT NULL,
    name       TEXT    NOT NULL,
    -- How often it was written.
    generation INTEGER NOT NULL,
    -- Milliseconds since 1970.
    created    INTEGER NOT NULL,
    updated    INTEGER NOT NULL,
    body       TEXT    NOT NULL,
    PRIMARY KEY (kind, namespace, name)
) STRICT, WITHOUT ROWID;
