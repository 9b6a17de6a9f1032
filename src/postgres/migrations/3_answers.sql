-- Answers of agents are large, are read once, and hardly compress.
ALTER TABLE kilter.results ALTER body SET STORAGE EXTERNAL;

-- Forgets jobs that ended so many days ago, the answers to them, and blobs that were not used since. Results of other
-- kinds stay. Only for the owner of the schema. Returns the number of jobs.
CREATE OR REPLACE FUNCTION kilter.purge(days double precision)
RETURNS bigint LANGUAGE plpgsql SET search_path = pg_catalog AS $$
DECLARE
  gone bigint;
  before CONSTANT timestamptz := clock_timestamp() - make_interval(secs => 86400 * $1);
BEGIN
  DELETE FROM kilter.results r USING kilter.jobs j, kilter.outcomes o
    WHERE j.id = r.job AND o.job = r.job AND o.ended < before AND j.kind = 'trial';
  DELETE FROM kilter.jobs USING kilter.outcomes o WHERE o.job = id AND o.ended < before;
  GET DIAGNOSTICS gone = ROW_COUNT;
  DELETE FROM kilter.blobs WHERE used < before;
  RETURN gone;
END $$;
REVOKE ALL ON FUNCTION kilter.purge FROM PUBLIC;
