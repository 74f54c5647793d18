-- Where operands and results lay when a kernel was timed: a letter each (kernels/base/heat.h), '' is all cold, as all rows
-- of before are.  It is a part of the key of what was measured, tried and bounded.
ALTER TABLE measurement ADD COLUMN heat TEXT NOT NULL DEFAULT '';
DROP INDEX measurement_of_spec;
CREATE INDEX measurement_of_spec ON measurement (spec, env, threads, precision, heat, epoch, fail, median_ns, schedule);

DROP VIEW best;
CREATE VIEW best AS
SELECT spec, env, threads, precision, heat, epoch, schedule, min(median_ns) AS median_ns
FROM measurement WHERE fail = 0
GROUP BY spec, env, threads, precision, heat, epoch;

ALTER TABLE attempt RENAME TO attempt_of_before;
CREATE TABLE attempt (
  spec      BLOB NOT NULL REFERENCES spec (hash),
  env       INTEGER NOT NULL REFERENCES environment (id),
  threads   INTEGER NOT NULL,
  precision TEXT NOT NULL,
  heat      TEXT NOT NULL DEFAULT '',
  epoch     INTEGER NOT NULL,
  effort    INTEGER NOT NULL,
  fail      INTEGER NOT NULL,
  cause     TEXT NOT NULL,
  wall_ns   INTEGER NOT NULL,
  PRIMARY KEY (spec, env, threads, precision, heat, epoch)
) STRICT, WITHOUT ROWID;
INSERT INTO attempt(spec, env, threads, precision, epoch, effort, fail, cause, wall_ns)
SELECT spec, env, threads, precision, epoch, effort, fail, cause, wall_ns FROM attempt_of_before;
DROP TABLE attempt_of_before;

ALTER TABLE bound RENAME TO bound_of_before;
CREATE TABLE bound (
  spec      BLOB NOT NULL REFERENCES spec (hash) ON DELETE CASCADE,
  env       INTEGER NOT NULL REFERENCES environment (id),
  threads   INTEGER NOT NULL,
  precision TEXT NOT NULL,
  heat      TEXT NOT NULL DEFAULT '',
  bound_ns  INTEGER NOT NULL,
  floor_ns  INTEGER NOT NULL,
  PRIMARY KEY (spec, env, threads, precision, heat)
) STRICT, WITHOUT ROWID;
INSERT INTO bound(spec, env, threads, precision, bound_ns, floor_ns)
SELECT spec, env, threads, precision, bound_ns, floor_ns FROM bound_of_before;
DROP TABLE bound_of_before;
