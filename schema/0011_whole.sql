-- Plans that were timed whole, beside the sum of their kernels: what a sum leaves out is learned from them, for a class of devices
-- and a number of threads.
CREATE TABLE whole (
  env         INTEGER NOT NULL REFERENCES environment (id),
  threads     INTEGER NOT NULL,
  plan        BLOB NOT NULL CHECK (length(plan) = 32),
  model       BLOB NOT NULL CHECK (length(model) = 32),
  sum_ns      INTEGER NOT NULL CHECK (sum_ns > 0),
  measured_ns INTEGER NOT NULL CHECK (measured_ns > 0),
  kernels     INTEGER NOT NULL,
  hot_bytes   INTEGER NOT NULL,
  near_bytes  INTEGER NOT NULL,
  cold_bytes  INTEGER NOT NULL,
  wall_ns     INTEGER NOT NULL,
  PRIMARY KEY (env, threads, plan)
) STRICT, WITHOUT ROWID;
