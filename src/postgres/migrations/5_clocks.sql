-- The server's clock may be moved. Forward, leases end early, and their jobs are done again. Back, a lease, a pause after
-- a failed attempt, and the sight of an agent would last longer by as much; the functions below recognise times that are
-- in the future.

ALTER TABLE kilter.queue ADD lease_from timestamptz;  -- when the lease was made or prolonged

-- Prolongs all leases of an agent. Returns the jobs that it still has: it must give up the others.
CREATE OR REPLACE FUNCTION kilter.beat(agent text, lease_seconds double precision, state jsonb)
RETURNS TABLE(draining boolean, held bigint[])
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $$
#variable_conflict use_column
DECLARE
  self kilter.agents := kilter.known_agent($1);
  recent CONSTANT interval := interval '2 minutes';
  speed double precision;
  middle double precision;
  known bigint;
BEGIN
  PERFORM set_config('synchronous_commit', 'off', true);
  IF jsonb_typeof($3->'reference') = 'number' THEN
    speed := $3->>'reference';
    SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY value), count(*) INTO middle, known FROM (
      SELECT CASE name WHEN $1 THEN speed ELSE (a.state->>'reference')::double precision END AS value
        FROM kilter.agents a
        WHERE device_class = self.device_class AND (name = $1 OR
          (seen > clock_timestamp() - recent AND jsonb_typeof(a.state->'reference') = 'number'))) others;
  END IF;
  -- After a pause of everybody, or once the clock was moved forward, the first to beat sees no others: what was known
  -- of it holds until its next beat.
  UPDATE kilter.agents SET seen = clock_timestamp(), state = $3,
      relative_speed = CASE WHEN known >= 3 AND middle > 0 THEN speed / middle
                            WHEN self.seen < clock_timestamp() - recent THEN relative_speed END WHERE name = $1;
  RETURN QUERY
    WITH mine AS (
      UPDATE kilter.queue SET lease_until = clock_timestamp() + make_interval(secs => $2), lease_from = clock_timestamp()
        WHERE lease_owner = $1 RETURNING job)
    SELECT self.draining, coalesce((SELECT array_agg(job ORDER BY job) FROM mine), '{}');
END $$;

-- Leases at most `most` jobs of the agent's class, in their order. A draining agent and an outlier get none.
CREATE OR REPLACE FUNCTION kilter.claim(agent text, most integer, lease_seconds double precision)
RETURNS TABLE(job bigint, kind text, run text, candidates integer, attempt smallint, payload bytea)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $$
#variable_conflict use_column
DECLARE
  self kilter.agents := kilter.known_agent($1);
  longest_pause CONSTANT interval := interval '4 s';  -- of free_jobs(): a job that is to wait longer need not wait
BEGIN
  PERFORM set_config('synchronous_commit', 'off', true);  -- a lease that a crash undoes is a job that is free again
  IF self.draining OR kilter.is_outlier(self) THEN
    RETURN;
  END IF;
  RETURN QUERY
    WITH free AS (
      SELECT q.job FROM kilter.queue q
        WHERE q.device_class = self.device_class AND q.lease_owner IS NULL
          AND (q.ready <= clock_timestamp() OR q.ready > clock_timestamp() + longest_pause)
        ORDER BY q.priority DESC, q.turn, q.job LIMIT $2 FOR UPDATE SKIP LOCKED),
    leased AS (
      UPDATE kilter.queue q SET lease_owner = $1, lease_until = clock_timestamp() + make_interval(secs => $3),
          lease_from = clock_timestamp(), attempt = q.attempt + 1
        FROM free WHERE q.job = free.job RETURNING q.job, q.attempt, q.priority, q.turn)
    SELECT j.id, j.kind, j.run, j.candidates, leased.attempt, p.bytes
      FROM leased JOIN kilter.jobs j ON j.id = leased.job JOIN kilter.payloads p ON p.job = leased.job
      ORDER BY leased.priority DESC, leased.turn, leased.job;
END $$;

-- Lets leases that begin in the future begin now, with the same length, and agents that were heard of in the future have
-- been heard of now. So a lease whose agent is gone ends within two lease times, however far the clock was moved back:
-- a lease that does not begin in the future is prolonged by no more than has passed of it.
CREATE FUNCTION kilter.correct_times() RETURNS void LANGUAGE sql SET search_path = pg_catalog AS $$
  UPDATE kilter.queue q SET lease_until = clock_timestamp() + (lease_until - lease_from), lease_from = clock_timestamp()
    FROM (SELECT job FROM kilter.queue WHERE lease_owner IS NOT NULL AND lease_from > clock_timestamp()
            ORDER BY job FOR UPDATE SKIP LOCKED) early WHERE q.job = early.job;
  UPDATE kilter.agents a SET seen = clock_timestamp()
    FROM (SELECT name FROM kilter.agents WHERE seen > clock_timestamp()
            ORDER BY name FOR UPDATE SKIP LOCKED) early WHERE a.name = early.name;
$$;

-- Ends the leases that have run out. Returns how many jobs are free again. Whoever beats, or waits, calls it.
CREATE OR REPLACE FUNCTION kilter.reap()
RETURNS bigint LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $$
#variable_conflict use_column
DECLARE
  late record;
  again bigint := 0;
BEGIN
  PERFORM kilter.correct_times();
  FOR late IN SELECT job, lease_owner, lease_until FROM kilter.queue
      WHERE lease_owner IS NOT NULL AND lease_until < clock_timestamp() ORDER BY job FOR UPDATE SKIP LOCKED LOOP
    again := again + kilter.free_jobs(ARRAY[late.job], format('agent %s was not heard of until its lease ended at %s',
      late.lease_owner, to_char(late.lease_until AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS "UTC"')));
  END LOOP;
  RETURN again;
END $$;

REVOKE ALL ON FUNCTION kilter.correct_times FROM PUBLIC;
