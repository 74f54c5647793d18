-- A whole plan's time is of the hour's clock, its kernels' times of calibration's: what stands between them, as a measurement's
-- clock_ratio.  0: not known, as of those of before.
ALTER TABLE plan_time ADD COLUMN clock_ratio REAL NOT NULL DEFAULT 0 CHECK (clock_ratio BETWEEN 0 AND 1e6);
ALTER TABLE whole ADD COLUMN clock_ratio REAL NOT NULL DEFAULT 0 CHECK (clock_ratio BETWEEN 0 AND 1e6);
