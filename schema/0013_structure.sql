-- Kernels of the same structure compute the same with other extents (D6): what is known of one says something of another.
ALTER TABLE spec ADD COLUMN structure BLOB NOT NULL DEFAULT X'0000000000000000000000000000000000000000000000000000000000000000';
UPDATE spec SET structure = spec_structure(text);
CREATE INDEX spec_of_structure ON spec (structure);
