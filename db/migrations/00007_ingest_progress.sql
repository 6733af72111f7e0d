-- How far each Kafka partition is stored, written in the transaction that
-- stores it. Offsets are committed to Kafka only up to here.

-- +goose Up
SET lock_timeout = '5s';

CREATE TABLE ingest_progress (
  topic_id uuid NOT NULL,
  kafka_partition integer NOT NULL,
  topic text NOT NULL,
  next_offset bigint NOT NULL CHECK (next_offset >= 0),
  updated_at timestamptz NOT NULL,
  PRIMARY KEY (topic_id, kafka_partition)
) WITH (fillfactor = 50);
COMMENT ON COLUMN ingest_progress.topic_id IS 'Kafka''s id of the topic: a topic that is made again begins anew.';
COMMENT ON COLUMN ingest_progress.next_offset IS 'Every record below is stored, skipped, quarantined or a duplicate.';

-- +goose Down
DROP TABLE ingest_progress;
