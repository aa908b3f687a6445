-- Queries with work wait their turn by namespace.
DROP INDEX queries_unfinished;
CREATE INDEX queries_with_work ON queries (namespace, uid) WHERE unfinished = 1;
