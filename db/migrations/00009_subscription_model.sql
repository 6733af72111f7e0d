-- The whole of an event subscription: custom headers, deletion, credentials of
-- its destination, and answers remembered by idempotency key.

-- +goose Up
SET lock_timeout = '5s';

ALTER TABLE event_subscriptions
  ADD headers jsonb NOT NULL DEFAULT '[]',
  ADD disable_on_gone boolean NOT NULL DEFAULT false,
  ADD deleted_at timestamptz;
COMMENT ON COLUMN event_subscriptions.headers IS 'Custom headers: [{"n": name, "v": value}]; no secrets, those are credentials.';
COMMENT ON COLUMN event_subscriptions.disable_on_gone IS 'An answer of 410 disables the subscription at once.';
COMMENT ON COLUMN event_subscriptions.deleted_at IS 'The row stays, so that history stays readable.';

-- What a destination asks of the hub, beside the signature: at most one
-- authorization and one client certificate. Sealed like signing secrets.
CREATE TABLE destination_credentials (
  id uuid PRIMARY KEY,
  tenant_id text COLLATE "C" NOT NULL,
  destination_id uuid NOT NULL REFERENCES destinations ON DELETE CASCADE,
  slot text NOT NULL CHECK (slot IN ('AUTHORIZATION', 'CERTIFICATE')),
  kind text NOT NULL CHECK (kind IN ('BEARER', 'BASIC', 'HEADER', 'CLIENT_CERTIFICATE')),
  name text NOT NULL DEFAULT '',
  certificate text NOT NULL DEFAULT '',
  version integer NOT NULL CHECK (version >= 1),
  key_id text NOT NULL,
  wrapped_key bytea NOT NULL,
  ciphertext bytea NOT NULL,
  created_at timestamptz NOT NULL,
  UNIQUE (destination_id, slot)
);
COMMENT ON COLUMN destination_credentials.name IS 'User name of BASIC, header name of HEADER.';
COMMENT ON COLUMN destination_credentials.certificate IS 'PEM chain of CLIENT_CERTIFICATE; its private key is the sealed secret.';

CREATE TABLE idempotency_keys (
  actor_id uuid NOT NULL,
  tenant_id text COLLATE "C" NOT NULL,
  key text NOT NULL CHECK (length(key) BETWEEN 1 AND 255),
  operation text NOT NULL,
  request_hash bytea NOT NULL CHECK (length(request_hash) = 32),
  id uuid NOT NULL,
  key_id text,
  wrapped_key bytea,
  answer bytea,
  created_at timestamptz NOT NULL,
  PRIMARY KEY (actor_id, tenant_id, key)
);
CREATE INDEX idempotency_keys_created ON idempotency_keys (created_at);
COMMENT ON COLUMN idempotency_keys.answer IS 'The payload, sealed: it may show a secret. Null while the call runs.';

-- +goose Down
DROP TABLE idempotency_keys;
DROP TABLE destination_credentials;
ALTER TABLE event_subscriptions DROP COLUMN headers, DROP COLUMN disable_on_gone, DROP COLUMN deleted_at;
