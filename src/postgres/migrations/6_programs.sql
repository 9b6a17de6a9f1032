-- Builds of kilter-agent with which agents may replace themselves, one for each kind of processor. An offer is signed, and
-- names the program's bytes by their hashes; agents check both.

CREATE TABLE kilter.programs(
  architecture text COLLATE "C" PRIMARY KEY,
  offer bytea NOT NULL,
  blobs text[] NOT NULL,
  submitter name NOT NULL,
  offered timestamptz NOT NULL);
ALTER TABLE kilter.programs ALTER offer SET STORAGE EXTERNAL;

-- Offers a program in place of the one before.
CREATE FUNCTION kilter.offer_program(architecture text, offer bytea, blobs text[])
RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $$
DECLARE
  most CONSTANT integer := 64 << 10;
  other name;
BEGIN
  IF octet_length($2) > most THEN
    PERFORM kilter.refuse(format('an offer of %s bytes is too large; at most %s are legal', octet_length($2), most));
  END IF;
  IF $1 NOT IN ('x86_64', 'aarch64') OR cardinality($3) NOT BETWEEN 1 AND 16 OR
      EXISTS (SELECT FROM unnest($3) hash WHERE hash !~ '^[0-9a-f]{64}$') THEN
    PERFORM kilter.refuse('an offer is for x86_64 or aarch64, and has 1 to 16 blobs');
  END IF;
  SELECT p.submitter INTO other FROM kilter.programs p WHERE p.architecture = $1;
  IF other <> session_user AND session_user <> current_user THEN
    PERFORM kilter.refuse(format('%s offers a program for %s; only that user and the owner of the schema may replace it',
                                 other, $1));
  END IF;
  INSERT INTO kilter.programs VALUES ($1, $2, $3, session_user, clock_timestamp())
    ON CONFLICT ON CONSTRAINT programs_pkey
    DO UPDATE SET offer = $2, blobs = $3, submitter = session_user, offered = clock_timestamp();
END $$;

-- Forgets jobs that ended so many days ago, the answers to them, and blobs that were not used since, except those of
-- programs. Results of other kinds stay. Only for the owner of the schema. Returns the number of jobs.
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
  DELETE FROM kilter.blobs b WHERE used < before AND NOT EXISTS (SELECT FROM kilter.programs WHERE b.hash = ANY(blobs));
  RETURN gone;
END $$;

REVOKE ALL ON FUNCTION kilter.purge, kilter.offer_program FROM PUBLIC;
