-- What a GPU was like while a schedule was timed: clock, heat, power, what slowed it, samples that did not count.
ALTER TABLE measurement ADD COLUMN state TEXT NOT NULL DEFAULT '';
