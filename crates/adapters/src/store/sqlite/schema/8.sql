-- How many calls of the query wait for approval. The inbox of a namespace lists the queries that have some.
ALTER TABLE queries ADD COLUMN approvals INTEGER NOT NULL DEFAULT 0;
CREATE UNIQUE INDEX queries_with_approvals ON queries (namespace, uid) WHERE approvals > 0;
