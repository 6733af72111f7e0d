package settings

import (
	"io"
	"log/slog"
	"time"

	"github.com/lmittmann/tint"
)

// Logger is the program's logger: JSON lines, or text for a person.
func (s Settings) Logger(w io.Writer) *slog.Logger {
	var level slog.Level
	// LOG_LEVEL was checked against the names that slog knows.
	_ = level.UnmarshalText([]byte(s.LogLevel))
	if s.LogFormat == "text" {
		return slog.New(tint.NewHandler(w, &tint.Options{Level: level, TimeFormat: time.TimeOnly}))
	}
	return slog.New(slog.NewJSONHandler(w, &slog.HandlerOptions{Level: level}))
}
