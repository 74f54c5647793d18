-- A store of schema 8, as it was: a program that knows a later one brings it forward (store_test.c).
PRAGMA application_id = 1265594979;
PRAGMA user_version = 8;
CREATE TABLE meta (
  name  TEXT NOT NULL PRIMARY KEY,
  value INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
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
  state       TEXT NOT NULL DEFAULT '',
  CHECK ((fail = 0) = (median_ns > 0))
) STRICT, WITHOUT ROWID;
CREATE INDEX measurement_of_spec ON measurement (spec, env, threads, precision, epoch, fail, median_ns, schedule);
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
CREATE TABLE blob (
  digest     BLOB NOT NULL PRIMARY KEY CHECK (length(digest) = 32),
  bytes      INTEGER NOT NULL CHECK (bytes >= 0),
  kind       TEXT NOT NULL,
  created_ns INTEGER NOT NULL,
  used_ns    INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE build (
  key       BLOB NOT NULL CHECK (length(key) = 32),
  worker    TEXT NOT NULL,
  artefact  BLOB NOT NULL REFERENCES blob (digest) ON DELETE CASCADE,
  log       TEXT NOT NULL,
  signature BLOB NOT NULL,
  wall_ns   INTEGER NOT NULL,
  PRIMARY KEY (key, worker)
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
CREATE TABLE job_end (
  key     BLOB NOT NULL PRIMARY KEY CHECK (length(key) = 32),
  record  BLOB NOT NULL,
  wall_ns INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE secret (
  name  TEXT NOT NULL PRIMARY KEY,
  value BLOB NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE spent (
  gen INTEGER PRIMARY KEY
) STRICT;
CREATE TABLE bound (
  spec      BLOB NOT NULL REFERENCES spec (hash) ON DELETE CASCADE,
  env       INTEGER NOT NULL REFERENCES environment (id),
  threads   INTEGER NOT NULL,
  precision TEXT NOT NULL,
  bound_ns  INTEGER NOT NULL,
  floor_ns  INTEGER NOT NULL,
  PRIMARY KEY (spec, env, threads, precision)
) STRICT, WITHOUT ROWID;
CREATE TABLE evidence (
  id      INTEGER PRIMARY KEY AUTOINCREMENT,
  wall_ns INTEGER NOT NULL,
  worker  TEXT NOT NULL,
  class   TEXT NOT NULL,
  why     TEXT NOT NULL,
  record  BLOB NOT NULL
) STRICT;
CREATE TABLE perturbed (
  key      BLOB NOT NULL PRIMARY KEY CHECK (length(key) = 32),
  asked_ns INTEGER NOT NULL,
  record   BLOB NOT NULL,
  wall_ns  INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO meta VALUES('boot', 1);
INSERT INTO environment VALUES(1, X'c21abe590f801a2a9cb9c07ddfc66385f6d834c555a37df527c5e7399989df57', 'cpu', 'cpu=fixture isa=avx2', X'8501a363707502b46370753d66697874757265206973613d6176783203c420c21abe590f801a2a9cb9c07ddfc66385f6d834c555a37df527c5e7399989df5704a67838362d363405a3676363', 1700000000000000000, 1700000000000000000);
INSERT INTO spec VALUES(X'930cdb46ac8d5c870f6c46dbc31e97af2beb8cb91e74234980dcf0cf3e1ee476', 'spec a', X'0100000000000000000000000000000000000000000000000000000000000000');
INSERT INTO spec VALUES(X'9dee233f75f38990fcf276d247e111c4509beae04e6ffa277cb147e3db2892ed', 'spec b', X'0100000000000000000000000000000000000000000000000000000000000000');
INSERT INTO measurement VALUES(X'0521f638aee58081148a74420f3cfd5705e69e43a2dd1211817a24268f1b2fa8', X'9dee233f75f38990fcf276d247e111c4509beae04e6ffa277cb147e3db2892ed', 'wrong', 1, 1, 1, 'f32', 0, 0, 0, 0, 0, 32, 'differs', 0.0, 0.0, X'0000000000000000000000000000000000000000000000000000000000000000', 0, 0, '', 4, 'host-1', 1, 1700000000000000000, '');
INSERT INTO measurement VALUES(X'b97e4e7b4bc2fbc7d2a08939347dff2e891fe768665f555d6ee6b397927df6e5', X'930cdb46ac8d5c870f6c46dbc31e97af2beb8cb91e74234980dcf0cf3e1ee476', 'wrong', 1, 1, 1, 'f32', 0, 0, 0, 0, 0, 32, 'differs', 0.0, 0.0, X'0000000000000000000000000000000000000000000000000000000000000000', 0, 0, '', 4, 'host-1', 1, 1700000000000000000, '');
INSERT INTO measurement VALUES(X'd1c59a79a32f623398f0c243a25264397df713a46cc191a5435a61dd026e6991', X'930cdb46ac8d5c870f6c46dbc31e97af2beb8cb91e74234980dcf0cf3e1ee476', 'fast', 1, 1, 1, 'f32', 100, 99, 120, 98, 20, 0, '', 1e-07, 1.0, X'0000000000000000000000000000000000000000000000000000000000000000', 0, 0, 'converged', 4, 'host-1', 1, 1700000000000000000, '');
INSERT INTO measurement VALUES(X'ffefc129219c35fd4e8f4fbfcadc242a495e814fac1ffdc44b36018492ecff5b', X'9dee233f75f38990fcf276d247e111c4509beae04e6ffa277cb147e3db2892ed', 'fast', 1, 1, 1, 'f32', 101, 99, 120, 98, 20, 0, '', 1e-07, 1.0, X'0000000000000000000000000000000000000000000000000000000000000000', 0, 0, 'converged', 4, 'host-1', 1, 1700000000000000000, '');
INSERT INTO attempt VALUES(X'930cdb46ac8d5c870f6c46dbc31e97af2beb8cb91e74234980dcf0cf3e1ee476', 1, 1, 'f32', 1, 4, 0, '', 1700000000000000000);
INSERT INTO attempt VALUES(X'9dee233f75f38990fcf276d247e111c4509beae04e6ffa277cb147e3db2892ed', 1, 1, 'f32', 1, 4, 0, '', 1700000000000000000);
INSERT INTO job VALUES(1, X'30313233343536373839616263646566', 'done', 6, X'8502a66d2e6f6e6e7803a4646f6e6509050a060c8301a3637075020108a466756c6c');
INSERT INTO plan_time VALUES(X'0500000000000000000000000000000000000000000000000000000000000000', 0, 500, 490, 10, 5, 1700000000000000000);
INSERT INTO repeat VALUES(X'd1c59a79a32f623398f0c243a25264397df713a46cc191a5435a61dd026e6991', X'0900000000000000000000000000000000000000000000000000000000000000', 110, 99, 120, 98, 20, 0, 1.0, 'converged', 'host-1', 1, 1700000000000000000);
INSERT INTO secret VALUES('tickets', X'0800000000000000000000000000000000000000000000000000000000000000');
INSERT INTO spent VALUES(3);
INSERT INTO bound VALUES(X'930cdb46ac8d5c870f6c46dbc31e97af2beb8cb91e74234980dcf0cf3e1ee476', 1, 1, 'f32', 50, 10);
