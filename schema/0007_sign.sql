-- Builds are signed by this data folder's key (sign.key), and each worker has its own: what one has built never takes
-- the place of another's.  Unsigned ones are made again when they are wanted.
DROP TABLE build;
CREATE TABLE build (
  key       BLOB NOT NULL CHECK (length(key) = 32),
  worker    TEXT NOT NULL,
  artefact  BLOB NOT NULL REFERENCES blob (digest) ON DELETE CASCADE,
  log       TEXT NOT NULL,
  signature BLOB NOT NULL,
  wall_ns   INTEGER NOT NULL,
  PRIMARY KEY (key, worker)
) STRICT, WITHOUT ROWID;
