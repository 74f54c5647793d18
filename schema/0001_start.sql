-- The first schema.  Digests are SHA-256; times are wall clock nanoseconds, for people only.

CREATE TABLE meta (
  name  TEXT NOT NULL PRIMARY KEY,
  value INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- A measuring environment.  The full key is text; hash finds it.
CREATE TABLE environment (
  id         INTEGER PRIMARY KEY,
  hash       BLOB NOT NULL UNIQUE CHECK (length(hash) = 32),
  class      TEXT NOT NULL,
  text       TEXT NOT NULL,
  record     BLOB NOT NULL,
  created_ns INTEGER NOT NULL,
  seen_ns    INTEGER NOT NULL
) STRICT;

CREATE TABLE spec (
  hash  BLOB NOT NULL PRIMARY KEY CHECK (length(hash) = 32),
  text  TEXT NOT NULL,
  model BLOB NOT NULL
) STRICT, WITHOUT ROWID;

-- One row for every timed or failed schedule; key is the digest of the columns up to precision.
CREATE TABLE measurement (
  key         BLOB NOT NULL PRIMARY KEY CHECK (length(key) = 32),
  spec        BLOB NOT NULL REFERENCES spec (hash),
  schedule    TEXT NOT NULL,
  epoch       INTEGER NOT NULL,
  env         INTEGER NOT NULL REFERENCES environment (id),
  threads     INTEGER NOT NULL CHECK (threads > 0),
  precision   TEXT NOT NULL,
  median_ns   INTEGER NOT NULL CHECK (median_ns >= 0),
  p10_ns      INTEGER NOT NULL,
  p90_ns      INTEGER NOT NULL,
  min_ns      INTEGER NOT NULL,
  samples     INTEGER NOT NULL CHECK (samples >= 0),
  fail        INTEGER NOT NULL,
  cause       TEXT NOT NULL,
  error       REAL NOT NULL,
  clock_ratio REAL NOT NULL,
  artefact    BLOB NOT NULL,
  code_bytes  INTEGER NOT NULL,
  compile_ns  INTEGER NOT NULL,
  stop        TEXT NOT NULL,
  effort      INTEGER NOT NULL,
  worker      TEXT NOT NULL,
  gen         INTEGER NOT NULL,
  wall_ns     INTEGER NOT NULL,
  CHECK ((fail = 0) = (median_ns > 0))
) STRICT, WITHOUT ROWID;
CREATE INDEX measurement_of_spec ON measurement (spec, env, threads, precision, epoch, fail, median_ns, schedule);

-- What was spent on a spec: the effort, and a failure that no schedule gets round.
CREATE TABLE attempt (
  spec      BLOB NOT NULL REFERENCES spec (hash),
  env       INTEGER NOT NULL REFERENCES environment (id),
  threads   INTEGER NOT NULL,
  precision TEXT NOT NULL,
  epoch     INTEGER NOT NULL,
  effort    INTEGER NOT NULL,
  fail      INTEGER NOT NULL,
  cause     TEXT NOT NULL,
  wall_ns   INTEGER NOT NULL,
  PRIMARY KEY (spec, env, threads, precision, epoch)
) STRICT, WITHOUT ROWID;

CREATE VIEW best AS
SELECT spec, env, threads, precision, epoch, schedule, min(median_ns) AS median_ns
FROM measurement WHERE fail = 0
GROUP BY spec, env, threads, precision, epoch;

-- Files under blobs/, by digest of their content.
CREATE TABLE blob (
  digest     BLOB NOT NULL PRIMARY KEY CHECK (length(digest) = 32),
  bytes      INTEGER NOT NULL CHECK (bytes >= 0),
  kind       TEXT NOT NULL,
  created_ns INTEGER NOT NULL,
  used_ns    INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Finished builds: the same kernels for the same environment are not compiled again.
CREATE TABLE build (
  key      BLOB NOT NULL PRIMARY KEY CHECK (length(key) = 32),
  artefact BLOB NOT NULL REFERENCES blob (digest) ON DELETE CASCADE,
  log      TEXT NOT NULL,
  worker   TEXT NOT NULL,
  wall_ns  INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE job (
  id         INTEGER PRIMARY KEY AUTOINCREMENT,
  request    BLOB NOT NULL UNIQUE,
  state      TEXT NOT NULL,
  changed_ns INTEGER NOT NULL,
  record     BLOB NOT NULL
) STRICT;

CREATE TABLE job_file (
  job      INTEGER NOT NULL REFERENCES job (id) ON DELETE CASCADE,
  position INTEGER NOT NULL,
  name     TEXT NOT NULL,
  digest   BLOB NOT NULL REFERENCES blob (digest),
  bytes    INTEGER NOT NULL,
  PRIMARY KEY (job, position)
) STRICT, WITHOUT ROWID;

CREATE TABLE counter (
  name  TEXT NOT NULL PRIMARY KEY,
  value INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
