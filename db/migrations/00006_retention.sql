-- Retention: whole partitions are dropped, rows are never deleted.

-- +goose Up
SET lock_timeout = '5s';

-- +goose StatementBegin
CREATE FUNCTION hub_drop_partitions(parent text, before timestamptz) RETURNS integer
LANGUAGE plpgsql
-- Dropping takes a lock that stops readers and writers of the whole table for
-- a moment; whoever holds one for longer makes this try give up.
SET lock_timeout = '500ms' AS $$
DECLARE
  leaf regclass;
  dropped integer := 0;
BEGIN
  IF NOT EXISTS (SELECT FROM partitioned_tables WHERE name = parent) THEN
    RAISE EXCEPTION 'hub_drop_partitions: % is no partitioned table of the hub', parent;
  END IF;
  -- What could still be written, by a clock that runs late, stays.
  before := least(before, now() - interval '1 hour');
  -- One replica at a time, as when partitions are made.
  PERFORM pg_advisory_xact_lock(7203114501);
  FOR leaf IN
    SELECT c.oid::regclass
    FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
    WHERE i.inhparent = parent::regclass
      AND (regexp_match(pg_get_expr(c.relpartbound, c.oid), 'TO \(''([0-9a-f-]{36})''\)'))[1]::uuid <= hub_uuid_floor(before)
    ORDER BY c.relname
  LOOP
    BEGIN
      EXECUTE format('DROP TABLE %s', leaf);
      dropped := dropped + 1;
    EXCEPTION WHEN lock_not_available THEN
      RETURN dropped; -- the next call tries again
    END;
  END LOOP;
  RETURN dropped;
END
$$;
-- +goose StatementEnd
COMMENT ON FUNCTION hub_drop_partitions IS
  'Drops the partitions of a table that hold nothing from the given time on; returns how many. Fewer than there are when a lock is not to be had at once.';

-- +goose Down
DROP FUNCTION hub_drop_partitions(text, timestamptz);
