-- The queue of a fleet: jobs that submitters give and agents do. All rules are in the functions below, which are the
-- protocol: submitters and agents may call them, and change no table. The clock is the server's.
--
-- A job waits or is leased as long as it has a row in kilter.queue; afterwards it has one in kilter.outcomes. An agent
-- leases jobs by claim() and keeps the lease by beat(); a lease that runs out ends as fail() does. What deliver() has
-- acknowledged stays: an outcome never changes, and a result exists once.
--
-- Errors for the caller have SQLSTATE KL001 and a whole sentence.

CREATE TABLE kilter.agents(
  name text COLLATE "C" PRIMARY KEY,
  login name NOT NULL,                 -- who may act as this agent
  device_class text COLLATE "C" NOT NULL,
  facts jsonb NOT NULL,                -- device, version, ...: as the agent describes itself
  started timestamptz NOT NULL,
  seen timestamptz NOT NULL,
  state jsonb NOT NULL DEFAULT '{}',   -- load, drift, ...: of the last beat
  draining boolean NOT NULL DEFAULT false,
  done bigint NOT NULL DEFAULT 0,      -- jobs that it delivered
  failed bigint NOT NULL DEFAULT 0)    -- jobs that it failed, or whose leases ran out
  WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);

CREATE TABLE kilter.jobs(
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  token text COLLATE "C" NOT NULL UNIQUE,  -- made by the submitter: a submission that is repeated adds nothing
  run text COLLATE "C" NOT NULL,       -- jobs of one run are cancelled together
  kind text COLLATE "C" NOT NULL,
  device_class text COLLATE "C" NOT NULL,
  submitter name NOT NULL DEFAULT session_user,
  priority smallint NOT NULL CHECK (priority BETWEEN -100 AND 100),
  candidates integer NOT NULL CHECK (candidates > 0),
  awaited boolean NOT NULL,            -- whether its end is notified
  submitted timestamptz NOT NULL DEFAULT clock_timestamp());
CREATE INDEX jobs_run ON kilter.jobs(run);

CREATE TABLE kilter.payloads(
  job bigint PRIMARY KEY REFERENCES kilter.jobs ON DELETE CASCADE,
  bytes bytea NOT NULL);
ALTER TABLE kilter.payloads ALTER bytes SET STORAGE EXTERNAL;

-- Rows are small, because each claim and each heartbeat writes one. "turn" orders the jobs of a class: the jobs of each
-- submitter follow one another in turns as long as their candidates, so submitters with jobs get equal shares.
CREATE TABLE kilter.queue(
  job bigint PRIMARY KEY REFERENCES kilter.jobs ON DELETE CASCADE,
  device_class text COLLATE "C" NOT NULL,
  priority smallint NOT NULL,
  submitter name NOT NULL,
  turn bigint NOT NULL,
  turn_end bigint NOT NULL,
  ready timestamptz NOT NULL DEFAULT '-infinity',
  attempt smallint NOT NULL DEFAULT 0,
  lease_owner text COLLATE "C",
  lease_until timestamptz,
  reasons text[] NOT NULL DEFAULT '{}')  -- why attempts failed
  WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500,
        autovacuum_vacuum_cost_delay = 0);
CREATE INDEX queue_free ON kilter.queue(device_class, priority DESC, turn, job) WHERE lease_owner IS NULL;
CREATE INDEX queue_shares ON kilter.queue(device_class, priority, submitter, turn_end);
CREATE INDEX queue_leases ON kilter.queue(lease_owner) WHERE lease_owner IS NOT NULL;

CREATE TABLE kilter.outcomes(
  job bigint PRIMARY KEY REFERENCES kilter.jobs ON DELETE CASCADE,
  outcome text NOT NULL CHECK (outcome IN ('done', 'cancelled', 'set aside')),
  agent text COLLATE "C",
  reason text NOT NULL DEFAULT '',
  keys text[] NOT NULL DEFAULT '{}',   -- of its results, in their order
  ended timestamptz NOT NULL DEFAULT clock_timestamp());
CREATE INDEX outcomes_ended ON kilter.outcomes(ended);
CREATE INDEX outcomes_set_aside ON kilter.outcomes(job) WHERE outcome = 'set aside';

-- What many jobs need, such as the weights of a network, by its SHA-256 hash.
CREATE TABLE kilter.blobs(
  hash text COLLATE "C" PRIMARY KEY,
  bytes bytea NOT NULL CHECK (octet_length(bytes) <= 64 << 20),
  used timestamptz NOT NULL DEFAULT clock_timestamp());
ALTER TABLE kilter.blobs ALTER bytes SET STORAGE EXTERNAL;

-- Only added to. "key" is a hash of device, problem, schedule, conditions and code: what is measured twice is one result.
CREATE TABLE kilter.results(
  seq bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  key text COLLATE "C" NOT NULL UNIQUE,
  job bigint NOT NULL,
  agent text COLLATE "C" NOT NULL,
  device text NOT NULL, problem text NOT NULL, schedule text NOT NULL, conditions text NOT NULL, code text NOT NULL,
  body bytea NOT NULL,
  made timestamptz NOT NULL DEFAULT clock_timestamp());
CREATE INDEX results_job ON kilter.results(job);

CREATE FUNCTION kilter.refuse(text) RETURNS void LANGUAGE plpgsql SET search_path = pg_catalog AS $$
BEGIN
  RAISE EXCEPTION USING ERRCODE = 'KL001', MESSAGE = $1;
END $$;

-- Adds a job and returns its number.
CREATE FUNCTION kilter.submit(token text, run text, kind text, device_class text, priority integer, candidates integer,
                              awaited boolean, payload bytea)
RETURNS bigint LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $$
#variable_conflict use_column
DECLARE
  made bigint;
  served bigint;
  first bigint;
  most CONSTANT integer := 64 << 20;
BEGIN
  IF octet_length($8) > most THEN
    PERFORM kilter.refuse(format('a job of %s bytes is too large; at most %s are legal: submit fewer candidates in a job',
                                 octet_length($8), most));
  END IF;
  IF $5 NOT BETWEEN -100 AND 100 THEN
    PERFORM kilter.refuse(format('a priority of %s is not legal; expected -100 to 100', $5));
  END IF;
  IF $6 NOT BETWEEN 1 AND 100000 THEN
    PERFORM kilter.refuse(format('a job of %s candidates is not legal; expected 1 to 100000', $6));
  END IF;
  INSERT INTO kilter.jobs(token, run, kind, device_class, priority, candidates, awaited)
    VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT (token) DO NOTHING RETURNING id INTO made;
  IF made IS NULL THEN
    SELECT id INTO made FROM kilter.jobs WHERE token = $1;
    RETURN made;
  END IF;
  INSERT INTO kilter.payloads(job, bytes) VALUES (made, $8);
  -- Not before what is served now, or next, and after the submitter's other jobs.
  SELECT turn INTO served FROM kilter.queue
    WHERE device_class = $4 AND priority = $5 AND lease_owner IS NULL ORDER BY turn LIMIT 1;
  IF served IS NULL THEN
    SELECT max(turn) INTO served FROM kilter.queue
      WHERE device_class = $4 AND priority = $5 AND lease_owner IS NOT NULL;
  END IF;
  SELECT greatest(served, max(turn_end), 0) INTO first FROM kilter.queue
    WHERE device_class = $4 AND priority = $5 AND submitter = session_user;
  INSERT INTO kilter.queue(job, device_class, priority, submitter, turn, turn_end)
    VALUES (made, $4, $5, session_user, first, first + $6);
  PERFORM pg_notify('kilter_jobs', $4);
  RETURN made;
END $$;

-- Returns those of the hashes that have a blob, and keeps them for a while.
CREATE FUNCTION kilter.known_blobs(hashes text[])
RETURNS SETOF text LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog AS $$
  UPDATE kilter.blobs SET used = clock_timestamp() WHERE hash = ANY($1) AND used < clock_timestamp() - interval '1 hour';
  SELECT hash FROM kilter.blobs WHERE hash = ANY($1);
$$;

-- Adds a blob if it is new, and returns its hash.
CREATE FUNCTION kilter.put_blob(bytes bytea)
RETURNS text LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog AS $$
  INSERT INTO kilter.blobs(hash, bytes) VALUES (encode(sha256($1), 'hex'), $1)
    ON CONFLICT (hash) DO UPDATE SET used = clock_timestamp() RETURNING hash;
$$;

-- Makes an agent known, or known again after a restart. It then has no leases.
CREATE FUNCTION kilter.announce(agent text, device_class text, facts jsonb)
RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $$
#variable_conflict use_column
BEGIN
  INSERT INTO kilter.agents AS old (name, login, device_class, facts, started, seen)
    VALUES ($1, session_user, $2, $3, clock_timestamp(), clock_timestamp())
    ON CONFLICT (name) DO UPDATE SET device_class = $2, facts = $3, state = '{}', draining = false,
      started = clock_timestamp(), seen = clock_timestamp() WHERE old.login = session_user;
  IF NOT FOUND THEN
    PERFORM kilter.refuse(format('agent %s: another user has an agent of this name; give this one another name', $1));
  END IF;
  PERFORM kilter.return_jobs($1, 'agent ' || $1 || ' started again');
END $$;

-- Returns the row of an agent that the caller may act as.
CREATE FUNCTION kilter.known_agent(agent text) RETURNS kilter.agents
LANGUAGE plpgsql SET search_path = pg_catalog AS $$
DECLARE
  found kilter.agents;
BEGIN
  SELECT * INTO found FROM kilter.agents WHERE name = $1 AND login = session_user;
  IF found.name IS NULL THEN
    PERFORM kilter.refuse(format('agent %s is not known, or was removed; start it again', $1));
  END IF;
  RETURN found;
END $$;

-- Leases at most `most` jobs of the agent's class, in their order. A draining agent gets none.
CREATE FUNCTION kilter.claim(agent text, most integer, lease_seconds double precision)
RETURNS TABLE(job bigint, kind text, run text, candidates integer, attempt smallint, payload bytea)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $$
#variable_conflict use_column
DECLARE
  self kilter.agents := kilter.known_agent($1);
BEGIN
  PERFORM set_config('synchronous_commit', 'off', true);  -- a lease that a crash undoes is a job that is free again
  IF self.draining THEN
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

-- Prolongs all leases of an agent. Returns the jobs that it still has: it must give up the others.
CREATE FUNCTION kilter.beat(agent text, lease_seconds double precision, state jsonb)
RETURNS TABLE(draining boolean, held bigint[])
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $$
#variable_conflict use_column
DECLARE
  self kilter.agents := kilter.known_agent($1);
BEGIN
  PERFORM set_config('synchronous_commit', 'off', true);
  UPDATE kilter.agents SET seen = clock_timestamp(), state = $3 WHERE name = $1;
  RETURN QUERY
    WITH mine AS (
      UPDATE kilter.queue SET lease_until = clock_timestamp() + make_interval(secs => $2)
        WHERE lease_owner = $1 RETURNING job)
    SELECT self.draining, coalesce((SELECT array_agg(job ORDER BY job) FROM mine), '{}');
END $$;

-- Ends a job with its results, one element of each array per result. Returns 'stored'; 'duplicate' if it was done
-- before; otherwise its outcome. The first delivery counts, even if its agent's lease has ended, or a crash has undone it.
CREATE FUNCTION kilter.deliver(agent text, job bigint, device text, problems text[], schedules text[],
                               conditions text[], codes text[], bodies bytea[])
RETURNS text LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $$
#variable_conflict use_column
DECLARE
  self kilter.agents := kilter.known_agent($1);
  entry kilter.queue;
  ending text;
  all_keys text[];
BEGIN
  SELECT * INTO entry FROM kilter.queue WHERE job = $2 FOR UPDATE;
  IF entry.job IS NULL THEN
    SELECT outcome INTO ending FROM kilter.outcomes WHERE job = $2;
    IF ending IS NULL THEN
      PERFORM kilter.refuse(format('job %s does not exist', $2));
    END IF;
    RETURN CASE ending WHEN 'done' THEN 'duplicate' ELSE ending END;
  END IF;
  IF entry.device_class <> self.device_class THEN
    PERFORM kilter.refuse(format('job %s is for the device class %s; agent %s is of %s', $2, entry.device_class, $1,
                                 self.device_class));
  END IF;
  WITH given AS (
    SELECT * FROM unnest($4, $5, $6, $7, $8) WITH ORDINALITY AS g(problem, schedule, condition, code, body, place)),
  keyed AS (
    SELECT *, encode(sha256(convert_to(jsonb_build_array($3, problem, schedule, condition, code)::text, 'UTF8')), 'hex')
      AS key FROM given),
  added AS (
    INSERT INTO kilter.results(key, job, agent, device, problem, schedule, conditions, code, body)
      SELECT key, $2, $1, $3, problem, schedule, condition, code, body FROM keyed ORDER BY place
      ON CONFLICT (key) DO NOTHING)
  SELECT coalesce(array_agg(key ORDER BY place), '{}') INTO all_keys FROM keyed;
  PERFORM kilter.end_job($2, 'done', $1, '', all_keys);
  UPDATE kilter.agents SET done = done + 1, seen = clock_timestamp() WHERE name = $1;
  RETURN 'stored';
END $$;

-- Takes a job out of the queue.
CREATE FUNCTION kilter.end_job(job bigint, outcome text, agent text, reason text, keys text[] DEFAULT '{}')
RETURNS void LANGUAGE plpgsql SET search_path = pg_catalog AS $$
#variable_conflict use_column
BEGIN
  DELETE FROM kilter.queue WHERE job = $1;
  INSERT INTO kilter.outcomes(job, outcome, agent, reason, keys) VALUES ($1, $2, $3, $4, $5);
  IF $2 <> 'set aside' THEN
    DELETE FROM kilter.payloads WHERE job = $1;
  END IF;
  PERFORM pg_notify('kilter_results', run) FROM kilter.jobs WHERE id = $1 AND awaited;
END $$;

-- Makes leased jobs free again, or sets them aside after the third attempt. Returns how many were free again.
CREATE FUNCTION kilter.free_jobs(jobs bigint[], reason text)
RETURNS bigint LANGUAGE plpgsql SET search_path = pg_catalog AS $$
#variable_conflict use_column
DECLARE
  entry kilter.queue;
  again bigint := 0;
  most CONSTANT integer := 3;
BEGIN
  FOR entry IN SELECT * FROM kilter.queue WHERE job = ANY($1) ORDER BY job LOOP
    entry.reasons := entry.reasons || $2;
    UPDATE kilter.agents SET failed = failed + 1 WHERE name = entry.lease_owner;
    IF entry.attempt >= most THEN
      PERFORM kilter.end_job(entry.job, 'set aside', entry.lease_owner,
                             format('%s attempts failed: %s', most, array_to_string(entry.reasons, '; ')));
    ELSE
      UPDATE kilter.queue SET lease_owner = NULL, lease_until = NULL, reasons = entry.reasons,
          ready = clock_timestamp() + make_interval(secs => 0.25 * 4 ^ entry.attempt) WHERE job = entry.job;
      PERFORM pg_notify('kilter_jobs', entry.device_class);
      again := again + 1;
    END IF;
  END LOOP;
  RETURN again;
END $$;

-- Ends the leases of an agent.
CREATE FUNCTION kilter.return_jobs(agent text, reason text)
RETURNS bigint LANGUAGE sql SET search_path = pg_catalog AS $$
  WITH held AS (SELECT job FROM kilter.queue WHERE lease_owner = $1 ORDER BY job FOR UPDATE)
  SELECT kilter.free_jobs(array(SELECT job FROM held), $2);
$$;

-- An attempt has failed: not a candidate, but the job as a whole. Returns whether the agent still had the job.
CREATE FUNCTION kilter.fail(agent text, job bigint, reason text)
RETURNS boolean LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $$
#variable_conflict use_column
DECLARE
  self kilter.agents := kilter.known_agent($1);
BEGIN
  PERFORM 1 FROM kilter.queue WHERE job = $2 AND lease_owner = $1 FOR UPDATE;
  IF NOT FOUND THEN
    RETURN false;
  END IF;
  PERFORM kilter.free_jobs(ARRAY[$2], 'agent ' || $1 || ': ' || $3);
  RETURN true;
END $$;

-- A job is given back untouched, as by an agent that drains. The attempt does not count.
CREATE FUNCTION kilter.give_back(agent text, job bigint)
RETURNS boolean LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $$
#variable_conflict use_column
DECLARE
  self kilter.agents := kilter.known_agent($1);
BEGIN
  UPDATE kilter.queue SET lease_owner = NULL, lease_until = NULL, attempt = attempt - 1
    WHERE job = $2 AND lease_owner = $1;
  IF FOUND THEN
    PERFORM pg_notify('kilter_jobs', self.device_class);
  END IF;
  RETURN FOUND;
END $$;

-- Ends the leases that have run out. Returns how many jobs are free again. Whoever beats, or waits, calls it.
CREATE FUNCTION kilter.reap()
RETURNS bigint LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $$
#variable_conflict use_column
DECLARE
  late record;
  again bigint := 0;
BEGIN
  FOR late IN SELECT job, lease_owner, lease_until FROM kilter.queue
      WHERE lease_owner IS NOT NULL AND lease_until < clock_timestamp() ORDER BY job FOR UPDATE SKIP LOCKED LOOP
    again := again + kilter.free_jobs(ARRAY[late.job], format('agent %s was not heard of until its lease ended at %s',
      late.lease_owner, to_char(late.lease_until AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS "UTC"')));
  END LOOP;
  RETURN again;
END $$;

-- Cancels the caller's jobs of a run, or anybody's if the caller owns the schema. Returns their number.
CREATE FUNCTION kilter.cancel(run text)
RETURNS bigint LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $$
#variable_conflict use_column
DECLARE
  entry bigint;
  ended bigint := 0;
BEGIN
  FOR entry IN SELECT q.job FROM kilter.queue q JOIN kilter.jobs j ON j.id = q.job
      WHERE j.run = $1 AND (q.submitter = session_user OR pg_has_role(session_user, current_user, 'MEMBER'))
      ORDER BY q.job FOR UPDATE OF q LOOP
    PERFORM kilter.end_job(entry, 'cancelled', NULL, 'cancelled by ' || session_user);
    ended := ended + 1;
  END LOOP;
  RETURN ended;
END $$;

-- Lets an agent end its jobs and take no more. Only for the owner of the schema. Returns whether it is known.
CREATE FUNCTION kilter.drain(agent text)
RETURNS boolean LANGUAGE plpgsql SET search_path = pg_catalog AS $$
BEGIN
  UPDATE kilter.agents SET draining = true WHERE name = $1;
  RETURN FOUND;
END $$;

-- Forgets an agent, and frees its jobs. Only for the owner of the schema. Returns whether it was known.
CREATE FUNCTION kilter.remove_agent(agent text)
RETURNS boolean LANGUAGE plpgsql SET search_path = pg_catalog AS $$
BEGIN
  DELETE FROM kilter.agents WHERE name = $1;
  IF FOUND THEN
    PERFORM kilter.return_jobs($1, 'agent ' || $1 || ' was removed');
    RETURN true;
  END IF;
  RETURN false;
END $$;

-- Forgets jobs that ended so many days ago, and blobs that were not used since. Results stay. Only for the owner of the
-- schema. Returns the number of jobs.
CREATE FUNCTION kilter.purge(days double precision)
RETURNS bigint LANGUAGE plpgsql SET search_path = pg_catalog AS $$
DECLARE
  gone bigint;
BEGIN
  DELETE FROM kilter.jobs USING kilter.outcomes o
    WHERE o.job = id AND o.ended < clock_timestamp() - make_interval(secs => 86400 * $1);
  GET DIAGNOSTICS gone = ROW_COUNT;
  DELETE FROM kilter.blobs WHERE used < clock_timestamp() - make_interval(secs => 86400 * $1);
  RETURN gone;
END $$;

REVOKE ALL ON ALL FUNCTIONS IN SCHEMA kilter FROM PUBLIC;
