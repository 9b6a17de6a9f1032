-- Agents of one class should be equal machines. Each beat tells how fast the reference kernel runs there; an agent whose
-- speed differs by more than a tenth from the median of its class gets no jobs until it does not any more.

-- The agent's speed divided by the median of its class; null if less than three agents of the class are known to run.
ALTER TABLE kilter.agents ADD relative_speed double precision;

CREATE FUNCTION kilter.is_outlier(agent kilter.agents) RETURNS boolean LANGUAGE sql IMMUTABLE AS $$
  SELECT coalesce(abs(($1).relative_speed - 1) > 0.1, false);
$$;

-- Prolongs all leases of an agent. Returns the jobs that it still has: it must give up the others.
CREATE OR REPLACE FUNCTION kilter.beat(agent text, lease_seconds double precision, state jsonb)
RETURNS TABLE(draining boolean, held bigint[])
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $$
#variable_conflict use_column
DECLARE
  self kilter.agents := kilter.known_agent($1);
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
          (seen > clock_timestamp() - interval '2 minutes' AND jsonb_typeof(a.state->'reference') = 'number'))) others;
  END IF;
  UPDATE kilter.agents SET seen = clock_timestamp(), state = $3,
      relative_speed = CASE WHEN known >= 3 AND middle > 0 THEN speed / middle END WHERE name = $1;
  RETURN QUERY
    WITH mine AS (
      UPDATE kilter.queue SET lease_until = clock_timestamp() + make_interval(secs => $2)
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
BEGIN
  PERFORM set_config('synchronous_commit', 'off', true);  -- a lease that a crash undoes is a job that is free again
  IF self.draining OR kilter.is_outlier(self) THEN
    RETURN;
  END IF;
  RETURN QUERY
    WITH free AS (
      SELECT q.job FROM kilter.queue q
        WHERE q.device_class = self.device_class AND q.lease_owner IS NULL AND q.ready <= clock_timestamp()
        ORDER BY q.priority DESC, q.turn, q.job LIMIT $2 FOR UPDATE SKIP LOCKED),
    leased AS (
      UPDATE kilter.queue q SET lease_owner = $1, lease_until = clock_timestamp() + make_interval(secs => $3),
          attempt = q.attempt + 1
        FROM free WHERE q.job = free.job RETURNING q.job, q.attempt, q.priority, q.turn)
    SELECT j.id, j.kind, j.run, j.candidates, leased.attempt, p.bytes
      FROM leased JOIN kilter.jobs j ON j.id = leased.job JOIN kilter.payloads p ON p.job = leased.job
      ORDER BY leased.priority DESC, leased.turn, leased.job;
END $$;
