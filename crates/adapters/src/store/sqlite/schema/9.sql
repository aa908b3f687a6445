-- Open calls that workers may claim, and that none has claimed. The rows of a query follow its head.
CREATE TABLE claimable (
    query     INTEGER NOT NULL,
    call      TEXT    NOT NULL,
    namespace TEXT    NOT NULL,
    tool      TEXT    NOT NULL,
    PRIMARY KEY (query, call)
) STRICT, WITHOUT ROWID;
CREATE INDEX claimable_by_tool ON claimable (namespace, tool, query);
CREATE TRIGGER claimable_go_with_their_query AFTER DELETE ON queries BEGIN
    DELETE FROM claimable WHERE query = old.id;
END;
