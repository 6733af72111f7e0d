-- What tenants wish: subscriptions, the destinations they share, the secrets
-- that sign, and the tokens that let people in.

-- +goose Up
SET lock_timeout = '5s';

CREATE TABLE destinations (
  id uuid PRIMARY KEY,
  tenant_id text COLLATE "C" NOT NULL REFERENCES tenant_counters,
  kind text NOT NULL CHECK (kind IN ('WEBHOOK', 'PULL')),
  url text NOT NULL CHECK (length(url) <= 2048 AND (kind = 'PULL') = (url = '')),
  created_at timestamptz NOT NULL,
  UNIQUE (tenant_id, kind, url)
);

-- Envelope encryption: a data key per secret, wrapped by the key key_id.
CREATE TABLE destination_secrets (
  id uuid PRIMARY KEY,
  tenant_id text COLLATE "C" NOT NULL,
  destination_id uuid NOT NULL REFERENCES destinations ON DELETE CASCADE,
  version integer NOT NULL CHECK (version >= 1),
  key_id text NOT NULL,
  wrapped_key bytea NOT NULL,
  ciphertext bytea NOT NULL,
  created_at timestamptz NOT NULL,
  not_after timestamptz,
  UNIQUE (destination_id, version)
);
COMMENT ON COLUMN destination_secrets.not_after IS 'End of a rotation''s overlap; null for the current secret.';

CREATE TABLE event_subscriptions (
  id uuid PRIMARY KEY,
  tenant_id text COLLATE "C" NOT NULL REFERENCES tenant_counters,
  name text NOT NULL CHECK (length(name) BETWEEN 1 AND 200),
  description text NOT NULL DEFAULT '',
  origin text,
  event_types text[] NOT NULL CHECK (cardinality(event_types) >= 1),
  schema_major integer CHECK (schema_major >= 0),
  destination_id uuid NOT NULL REFERENCES destinations,
  kind text NOT NULL CHECK (kind IN ('WEBHOOK', 'PULL')),
  enabled boolean NOT NULL DEFAULT true,
  disabled_by text CHECK (disabled_by IN ('USER', 'AUTO')),
  disabled_reason text NOT NULL DEFAULT '',
  disabled_at timestamptz,
  verification_state text NOT NULL DEFAULT 'PENDING' CHECK (verification_state IN ('PENDING', 'ACTIVE', 'FAILED')),
  verification_error text NOT NULL DEFAULT '',
  retry_policy jsonb NOT NULL DEFAULT '{"kind":"CURVE"}',
  timeout_ms integer NOT NULL DEFAULT 15000 CHECK (timeout_ms BETWEEN 1000 AND 30000),
  version integer NOT NULL DEFAULT 1,
  created_at timestamptz NOT NULL,
  updated_at timestamptz NOT NULL,
  CHECK (enabled = (disabled_by IS NULL))
);
CREATE INDEX event_subscriptions_tenant ON event_subscriptions (tenant_id, id);
CREATE INDEX event_subscriptions_destination ON event_subscriptions (destination_id);

CREATE TABLE api_tokens (
  id uuid PRIMARY KEY,
  tenant_id text COLLATE "C",
  name text NOT NULL CHECK (length(name) BETWEEN 1 AND 200),
  role text NOT NULL CHECK (role IN ('VIEWER', 'OPERATOR', 'ADMIN')),
  hash bytea NOT NULL CHECK (length(hash) = 32),
  created_at timestamptz NOT NULL,
  expires_at timestamptz,
  revoked_at timestamptz
);
COMMENT ON COLUMN api_tokens.tenant_id IS 'Null for platform scope: every tenant.';
COMMENT ON COLUMN api_tokens.hash IS 'SHA-256 of the token; the token itself is shown once and not kept.';

-- +goose Down
DROP TABLE api_tokens;
DROP TABLE event_subscriptions;
DROP TABLE destination_secrets;
DROP TABLE destinations;
