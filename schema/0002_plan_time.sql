-- Timings of whole plans, by what was timed (digests of their contents) and where: a warm job asks for
-- the same again.
CREATE TABLE plan_time (
  key       BLOB NOT NULL CHECK (length(key) = 32),
  position  INTEGER NOT NULL,
  median_ns INTEGER NOT NULL CHECK (median_ns > 0),
  min_ns    INTEGER NOT NULL,
  spread_ns INTEGER NOT NULL,
  samples   INTEGER NOT NULL,
  wall_ns   INTEGER NOT NULL,
  PRIMARY KEY (key, position)
) STRICT, WITHOUT ROWID;
