package settings

// What each program needs.
var (
	DataPlane = Program{
		Defaults: map[string]string{"HTTP_LISTEN_ADDR": "127.0.0.1:8081"},
		Required: []string{"POSTGRES_DSN", "KAFKA_BROKERS"},
	}
	ControlPlane = Program{
		Defaults: map[string]string{"HTTP_LISTEN_ADDR": "127.0.0.1:8080"},
		Required: []string{"POSTGRES_DSN"},
	}
)
