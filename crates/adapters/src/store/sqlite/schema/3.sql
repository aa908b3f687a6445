-- Which query refers to which blob; a blob is a file beside the database. References are written with the
-- entry that makes them and go with their query. A blob without any is removed by the sweep.
CREATE TABLE blobs (
    hash  BLOB    NOT NULL,
    query INTEGER NOT NULL,
    PRIMARY KEY (hash, query)
) STRICT, WITHOUT ROWID;
CREATE INDEX blobs_by_query ON blobs (query);
CREATE TRIGGER blobs_go_with_their_query AFTER DELETE ON queries BEGIN
    DELETE FROM blobs WHERE query = old.id;
END;
