package stack

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// Levels of a plane's log lines, the least severe first.
const (
	levelDebug = iota
	levelInfo
	levelWarn
	levelError
)

// entry is one line of a plane's log, made readable.
type entry struct {
	level int
	text  string
}

// readEntry reads a slog JSON line. Anything else, a stack trace say, counts
// as an error and is shown as it is.
func readEntry(line string) entry {
	line = strings.TrimRight(line, "\r\n")
	fields := map[string]any{}
	d := json.NewDecoder(strings.NewReader(line))
	d.UseNumber()
	if err := d.Decode(&fields); err != nil || fields["msg"] == nil {
		return entry{level: levelError, text: line}
	}
	word := fmt.Sprint(fields["level"])
	text := word + " " + fmt.Sprint(fields["msg"])
	var names []string
	for name := range fields {
		if name != "time" && name != "level" && name != "msg" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		text += fmt.Sprintf("  %s=%v", name, fields[name])
	}
	level := map[string]int{"DEBUG": levelDebug, "INFO": levelInfo, "WARN": levelWarn}
	if l, ok := level[word]; ok {
		return entry{level: l, text: text}
	}
	return entry{level: levelError, text: text}
}
