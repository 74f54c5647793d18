-- Schedules timed again: one row for each session (a race of many kernels, by digest of what was asked).
-- key is the measurement's; the first measurement stays what it was.
CREATE TABLE repeat (
  key         BLOB NOT NULL CHECK (length(key) = 32),
  session     BLOB NOT NULL CHECK (length(session) = 32),
  median_ns   INTEGER NOT NULL CHECK (median_ns >= 0),
  p10_ns      INTEGER NOT NULL,
  p90_ns      INTEGER NOT NULL,
  min_ns      INTEGER NOT NULL,
  samples     INTEGER NOT NULL CHECK (samples >= 0),
  fail        INTEGER NOT NULL,
  clock_ratio REAL NOT NULL,
  stop        TEXT NOT NULL,
  worker      TEXT NOT NULL,
  gen         INTEGER NOT NULL,
  wall_ns     INTEGER NOT NULL,
  PRIMARY KEY (key, session),
  CHECK ((fail = 0) = (median_ns > 0))
) STRICT, WITHOUT ROWID;
CREATE INDEX repeat_of_session ON repeat (session);
