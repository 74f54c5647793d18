-- Which of its schedules each kernel of a build was made by, a byte each; empty: all by the first.
ALTER TABLE build ADD COLUMN took BLOB NOT NULL DEFAULT x'';
