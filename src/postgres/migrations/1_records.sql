-- Tuning records. A record's schema (kRecordVersion) is a part of this one, so a new version of records needs a
-- migration. Texts are compared by bytes, and the index of problems is of hashes because a problem may be longer than
-- an entry of a B-tree. "line" is the record's line if it contains NUL, which PostgreSQL cannot store in a text; the
-- other columns then have U+FFFD instead.
CREATE TABLE kilter.schema_version(version integer PRIMARY KEY, made timestamptz NOT NULL DEFAULT now());
CREATE TABLE kilter.records(
  seq bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  id text COLLATE "C" NOT NULL UNIQUE,
  problem text COLLATE "C" NOT NULL,
  layouts text COLLATE "C" NOT NULL,
  schedule text COLLATE "C" NOT NULL,
  status text COLLATE "C" NOT NULL,
  error text COLLATE "C" NOT NULL,
  network text COLLATE "C" NOT NULL,
  node text COLLATE "C" NOT NULL,
  source text COLLATE "C" NOT NULL,
  foreign_line text COLLATE "C" NOT NULL,
  samples text COLLATE "C" NOT NULL,
  conditions text COLLATE "C" NOT NULL,
  versus text COLLATE "C",
  ms double precision,
  device text COLLATE "C",
  target text COLLATE "C",
  threads integer,
  line text COLLATE "C");
CREATE INDEX records_problem ON kilter.records USING hash(problem);
