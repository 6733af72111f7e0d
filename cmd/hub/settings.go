package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"

	"github.com/streaming-hub/streaming-hub/cmd/internal/settings"
)

type settingsCommand struct {
	JSON     bool `xor:"form" help:"As JSON."`
	Markdown bool `xor:"form" help:"As the table of the documentation, without values."`
}

func (c *settingsCommand) Run(out io.Writer) error {
	if c.Markdown {
		_, err := io.WriteString(out, settings.Markdown())
		return err
	}
	lines, err := settings.List(settings.Program{}, os.Environ())
	if err != nil {
		return err
	}
	if c.JSON {
		e := json.NewEncoder(out)
		e.SetIndent("", "  ")
		return e.Encode(lines)
	}
	for _, l := range lines {
		kind := l.Kind
		if l.Allowed != "" {
			kind += ", " + l.Allowed
		}
		if _, err := fmt.Fprintf(out, "%s=%s\n    %s\n    %s; default %q; this value is from the %s\n", l.Name, l.Value, l.Help, kind, l.Default, l.Origin); err != nil {
			return err
		}
	}
	return nil
}
