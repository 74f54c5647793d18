-- What was trained for a device class, by the generator epoch whose kernels it knows: one each.  `file` is empty where
-- a training was no better than what served; rows_tried says of how many measurements that was found out.
CREATE TABLE predictor (
  class      TEXT NOT NULL,
  epoch      INTEGER NOT NULL,
  rows_tried INTEGER NOT NULL,
  tried_ns   INTEGER NOT NULL,
  method     TEXT NOT NULL,
  rows       INTEGER NOT NULL,
  compared   INTEGER NOT NULL,
  error      REAL NOT NULL,
  beside     REAL NOT NULL,
  made_ns    INTEGER NOT NULL,
  file       BLOB NOT NULL CHECK (length(file) <= 2097152),
  PRIMARY KEY (class, epoch)
) STRICT;
