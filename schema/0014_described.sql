-- A build stands beside what describes its machine code (kernels/artefact), and both are signed.  Those of before have
-- no description: they are made again when they are wanted.
DROP TABLE build;
CREATE TABLE build (
  key         BLOB NOT NULL CHECK (length(key) = 32),
  worker      TEXT NOT NULL,
  artefact    BLOB NOT NULL REFERENCES blob (digest) ON DELETE CASCADE,
  description BLOB NOT NULL REFERENCES blob (digest) ON DELETE CASCADE,
  log         TEXT NOT NULL,
  took        BLOB NOT NULL,
  signature   BLOB NOT NULL,
  described   BLOB NOT NULL,
  wall_ns     INTEGER NOT NULL,
  PRIMARY KEY (key, worker)
) STRICT, WITHOUT ROWID;
