-- Tables that grow are partitioned by the time inside their version 7 UUID
-- key, so that retention drops a partition and never deletes rows, and a
-- look-up by key touches one partition.

-- +goose Up
SET lock_timeout = '5s';

-- +goose StatementBegin
CREATE FUNCTION hub_uuid_floor(t timestamptz) RETURNS uuid
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT (lpad(to_hex(floor(extract(epoch FROM t) * 1000)::bigint), 12, '0') || repeat('0', 20))::uuid
$$;
-- +goose StatementEnd
COMMENT ON FUNCTION hub_uuid_floor IS
  'The smallest UUID of the millisecond of t: a bound for version 7 ids by time.';

-- +goose StatementBegin
CREATE FUNCTION hub_uuid_time(id uuid) RETURNS timestamptz
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT to_timestamp(('x' || lpad(replace(left(id::text, 13), '-', ''), 16, '0'))::bit(64)::bigint / 1000.0)
$$;
-- +goose StatementEnd
COMMENT ON FUNCTION hub_uuid_time IS 'The millisecond in which a version 7 id was made.';

-- The list of partitioned tables, with the length of a partition. A unique
-- index that lacks the partition key can only exist per partition:
-- unique_column asks for one.
CREATE TABLE partitioned_tables (
  name text PRIMARY KEY,
  step interval NOT NULL CHECK (step >= interval '1 hour'),
  unique_column text
);

-- +goose StatementBegin
CREATE FUNCTION hub_ensure_partitions(until timestamptz) RETURNS integer
LANGUAGE plpgsql AS $$
DECLARE
  parent record;
  slot timestamptz;
  leaf text;
  made integer := 0;
BEGIN
  -- One replica at a time; the others find the work done.
  PERFORM pg_advisory_xact_lock(7203114501);
  FOR parent IN SELECT name, step, unique_column FROM partitioned_tables ORDER BY name LOOP
    -- Slots are multiples of the step since the epoch. The hour before now
    -- belongs in, for clocks that run late.
    slot := date_bin(parent.step, now() - interval '1 hour', timestamptz '1970-01-01 00:00:00+00');
    WHILE slot < until LOOP
      leaf := parent.name || to_char(slot AT TIME ZONE 'UTC', '"_p"YYYYMMDD"_"HH24');
      IF to_regclass(leaf) IS NULL THEN
        -- Made apart and then attached: ATTACH takes a lock that lets
        -- readers and writers of the other partitions go on.
        EXECUTE format('CREATE TABLE %I (LIKE %I INCLUDING ALL)', leaf, parent.name);
        IF parent.unique_column IS NOT NULL THEN
          EXECUTE format('CREATE UNIQUE INDEX ON %I (%I)', leaf, parent.unique_column);
        END IF;
        EXECUTE format('ALTER TABLE %I ATTACH PARTITION %I FOR VALUES FROM (%L) TO (%L)',
          parent.name, leaf, hub_uuid_floor(slot), hub_uuid_floor(slot + parent.step));
        made := made + 1;
      END IF;
      slot := slot + parent.step;
    END LOOP;
  END LOOP;
  RETURN made;
END
$$;
-- +goose StatementEnd
COMMENT ON FUNCTION hub_ensure_partitions IS
  'Makes the partitions that are missing up to the given time; returns how many.';

-- +goose Down
DROP FUNCTION hub_ensure_partitions(timestamptz);
DROP TABLE partitioned_tables;
DROP FUNCTION hub_uuid_time(uuid);
DROP FUNCTION hub_uuid_floor(timestamptz);
