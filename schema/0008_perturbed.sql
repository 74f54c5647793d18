-- What came of searches for a better order of a kernel's machine instructions, by the measurement of the kernel as it
-- was: the record, and the largest time that a job gave to such a search.
CREATE TABLE perturbed (
  key      BLOB NOT NULL PRIMARY KEY CHECK (length(key) = 32),
  asked_ns INTEGER NOT NULL,
  record   BLOB NOT NULL,
  wall_ns  INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
