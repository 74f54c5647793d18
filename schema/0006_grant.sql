-- Results that count, and results that do not.
-- Keys of this data folder: the secret behind tickets (proto/ticket.h).
CREATE TABLE secret (
  name  TEXT NOT NULL PRIMARY KEY,
  value BLOB NOT NULL
) STRICT, WITHOUT ROWID;

-- Generations whose result has come: a ticket of one serves no more.  Older ones than meta.spent_below are not
-- listed, and serve no more either.
CREATE TABLE spent (
  gen INTEGER PRIMARY KEY
) STRICT;

-- The least that a spec can take, as its planner last said.
CREATE TABLE bound (
  spec      BLOB NOT NULL REFERENCES spec (hash) ON DELETE CASCADE,
  env       INTEGER NOT NULL REFERENCES environment (id),
  threads   INTEGER NOT NULL,
  precision TEXT NOT NULL,
  bound_ns  INTEGER NOT NULL,
  floor_ns  INTEGER NOT NULL,
  PRIMARY KEY (spec, env, threads, precision)
) STRICT, WITHOUT ROWID;

-- Results that were not believed: the newest ones, to be looked at; nothing is chosen by them.
CREATE TABLE evidence (
  id      INTEGER PRIMARY KEY AUTOINCREMENT,
  wall_ns INTEGER NOT NULL,
  worker  TEXT NOT NULL,
  class   TEXT NOT NULL,
  why     TEXT NOT NULL,
  record  BLOB NOT NULL
) STRICT;
