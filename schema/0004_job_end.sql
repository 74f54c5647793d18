-- How the search for a job ended, by digest of its specs, options and environment: a repeat with no larger
-- budget takes the same choice.
CREATE TABLE job_end (
  key     BLOB NOT NULL PRIMARY KEY CHECK (length(key) = 32),
  record  BLOB NOT NULL,
  wall_ns INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
