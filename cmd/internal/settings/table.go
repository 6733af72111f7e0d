package settings

import "time"

// table declares every setting, in the order in which `hub settings` lists
// them. The pointers bind it to s.
func (s *Settings) table() []setting {
	const (
		hour = time.Hour
		day  = 24 * hour
		mib  = 1 << 20
	)
	return []setting{
		choice(&s.Role, "ROLE", RoleAll, []Role{RoleAll, RoleIngest, RoleDelivery},
			"Part of the data plane's work that this process does."),
		text(&s.HTTPListenAddr, "HTTP_LISTEN_ADDR", "127.0.0.1:8081",
			"host:port of the HTTP server. The control plane's own default is 127.0.0.1:8080.").that("host:port", listenAddress),
		duration(&s.ShutdownTimeout, "SHUTDOWN_TIMEOUT", 30*time.Second, time.Second, 10*time.Minute,
			"How long a stopping process may finish its work before it gives up its leases."),
		choice(&s.LogFormat, "LOG_FORMAT", "json", []string{"json", "text"},
			"json for machines, text for a person at a terminal."),
		choice(&s.LogLevel, "LOG_LEVEL", "info", []string{"debug", "info", "warn", "error"},
			"Least severe log lines that are written."),
		yesNo(&s.ProfilesEnabled, "PROFILES_ENABLED", false,
			"Serve Go's profiles under /debug/pprof/ of the data plane's HTTP server, for finding what costs time."),

		hidden(&s.PostgresDSN, "POSTGRES_DSN", "URL or key=value form",
			"Postgres that holds everything, for example postgres://user:password@host:5432/hub."),
		list(&s.KafkaBrokers, "KAFKA_BROKERS", "", "host:port,host:port",
			"Kafka brokers to begin with."),
		text(&s.KafkaSCRAM.Username, "KAFKA_SCRAM_USERNAME", "",
			"User for Kafka's SASL/SCRAM log-in; empty means no log-in."),
		hidden(&s.KafkaSCRAM.Password, "KAFKA_SCRAM_PASSWORD", "",
			"Password for Kafka's SASL/SCRAM log-in."),
		choice(&s.KafkaSCRAM.Mechanism, "KAFKA_SCRAM_MECHANISM", "SCRAM-SHA-512", []string{"SCRAM-SHA-256", "SCRAM-SHA-512"},
			"Hash of Kafka's SASL/SCRAM log-in."),
		yesNo(&s.KafkaTLSEnabled, "KAFKA_TLS_ENABLED", false,
			"Speak TLS to Kafka, trusting the system's certificate authorities."),
		text(&s.ConsumerGroup, "CONSUMER_GROUP", "streaming-hub",
			"Kafka consumer group of the facts; the dead-letter observer adds -dlq to it."),

		text(&s.TopicPrefix, "TOPIC_PREFIX", "lerian.streaming",
			"Topics <prefix>.<source> are followed, <prefix>.<source>.dlq observed.").that("words with dots between them", dottedWords),
		text(&s.TypePrefix, "TYPE_PREFIX", "studio.lerian",
			"CloudEvents types are <prefix>.<source>.<resourcetype>.<eventtype>.").that("words with dots between them", dottedWords),
		text(&s.HeaderPrefix, "HEADER_PREFIX", "X-Lerian-",
			"Begins the names of the hub's own HTTP headers.").that("letters, digits, hyphens", headerPrefix),
		yesNo(&s.MultiTenantEnabled, "MULTI_TENANT_ENABLED", true,
			"When false, an event without a tenantid belongs to TENANT_ID."),
		text(&s.TenantID, "TENANT_ID", "",
			"The only tenant when MULTI_TENANT_ENABLED is false.").that("letters, digits, _ and -", tenantName),
		number(&s.MaxBodyBytes, "MAX_BODY_BYTES", mib, 1, 16*mib, "bytes",
			"Largest event body: a larger one is quarantined, and one that was stored under a higher bound is not delivered."),
		number(&s.IngestBatch, "INGEST_BATCH", 500, 1, 5000, "records",
			"Most records of one partition in one transaction."),

		number(&s.DispatchWorkers, "DISPATCH_WORKERS", 8, 1, 4096, "attempts",
			"Attempts that one process makes at the same time."),
		duration(&s.DispatchLease, "DISPATCH_LEASE", time.Minute, 2*time.Second, 10*time.Minute,
			"How long a worker owns a delivery. Longer than the longest attempt (30s) and its wait in memory; shorter only where all subscriptions have short timeouts."),
		number(&s.DispatchUnwrittenOutcomes, "DISPATCH_UNWRITTEN_OUTCOMES", 512, 1, 100_000, "outcomes",
			"Most attempts made and not yet written: the duplicates that a kill can cause."),
		number(&s.PoisonThreshold, "POISON_THRESHOLD", 5, 1, 100, "reclaims",
			"How many lone runs of a delivery may end without any outcome, by a crash say, before the next such end makes it a dead letter (POISON)."),
		durations(&s.DefaultRetrySteps, "DEFAULT_RETRY_STEPS", 12, 10*hour,
			"Replaces the steps of the CURVE retry policy, for development and tests. Empty keeps the curve."),
		yesNo(&s.AllowPrivateSinks, "ALLOW_PRIVATE_SINKS", false,
			"Let destinations be http and on loopback or private addresses: development only."),
		hidden(&s.KEKKeys, "KEK_KEYS", "id:base64 of 32 bytes, comma-separated",
			"Keys that encrypt signing secrets at rest: the first encrypts, all decrypt. Without one nothing is signed and nothing is sent.").that("id:base64 of 32 bytes, comma-separated", keyring),

		yesNo(&s.AutodisableEnabled, "AUTODISABLE_ENABLED", true,
			"When false, failure policies are judged and shown, and nothing is disabled."),
		duration(&s.AutodisableFailureWindow, "AUTODISABLE_FAILURE_WINDOW", 120*hour, time.Second, 90*day,
			"A subscription is disabled when its failures have lasted this long since the first one …"),
		duration(&s.AutodisableFailureSpread, "AUTODISABLE_FAILURE_SPREAD", 12*hour, 0, 90*day,
			"… and the last failure came this long after the first. At most the window."),

		number(&s.PullRate, "PULL_RATE", 100, 1, 100_000, "requests per second",
			"Pull requests of one tenant in the long run."),
		number(&s.PullBurst, "PULL_BURST", 200, 1, 100_000, "requests",
			"Pull requests of one tenant at once."),
		duration(&s.EventRetention, "EVENT_RETENTION", 30*day, day, 3650*day,
			"How long events, deliveries and attempts are kept. What still waits or is held when it ends is dead-lettered as EXPIRED."),
		duration(&s.DLQRetention, "DLQ_RETENTION", 168*hour, hour, 365*day,
			"How long observations of producers' dead-letter topics are kept."),
		duration(&s.IdempotencyTTL, "IDEMPOTENCY_TTL", 24*hour, time.Minute, 7*day,
			"How long a mutation's idempotency key gives the same answer."),

		text(&s.OIDC.Issuer, "OIDC_ISSUER", "",
			"URL of the OpenID Connect issuer whose JSON web tokens let in, beside API tokens; empty means none."),
		text(&s.OIDC.Audience, "OIDC_AUDIENCE", "",
			"Audience that such a token has to name; needed with OIDC_ISSUER."),
		text(&s.OIDC.TenantClaim, "OIDC_TENANT_CLAIM", "tenant",
			"Claim with the tenant that the token reaches; parts of a nested claim are joined by dots."),
		text(&s.OIDC.PlatformValue, "OIDC_PLATFORM_VALUE", "*",
			"Value of the tenant claim that reaches all tenants. None that can be a tenant id."),
		text(&s.OIDC.RoleClaim, "OIDC_ROLE_CLAIM", "role",
			"Claim with the role, VIEWER, OPERATOR or ADMIN in any case; of a list the highest counts."),

		text(&s.OTLP.Endpoint, "OTLP_ENDPOINT", "",
			"URL of an OpenTelemetry collector that takes OTLP over HTTP, for example http://127.0.0.1:4318; without a path, /v1/traces is added. Empty: what OTEL_EXPORTER_OTLP_TRACES_ENDPOINT or OTEL_EXPORTER_OTLP_ENDPOINT says; without those, no traces.").or(s.OTLP.endpoint),
		hidden(&s.OTLP.Headers, "OTLP_HEADERS", "name=value,name=value",
			"Headers of requests to the collector, values percent-encoded. Empty: what OTEL_EXPORTER_OTLP_TRACES_HEADERS or OTEL_EXPORTER_OTLP_HEADERS says.").or(s.OTLP.headers),
		share(&s.TraceSampleRatio, "TRACE_SAMPLE_RATIO", "0.01",
			"Share of the events whose producer sent no trace context, and of such API requests, that are traced; the others follow the sampled flag of their traceparent."),

		text(&s.ControlPlaneURL, "CONTROL_PLANE_URL", "",
			"Address under which browsers reach the control plane; empty derives it from the request.").that("http or https URL", webURL),
		list(&s.AllowedOrigins, "ALLOWED_ORIGINS", "", "https://host[:port],…",
			"Further web origins whose pages may call the API.").that("https://host[:port],…", origins),
	}
}
