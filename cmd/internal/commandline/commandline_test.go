package commandline

import (
	"bytes"
	"strings"
	"testing"
)

func TestJudge(t *testing.T) {
	for name, c := range map[string]struct {
		args          []string
		status        int
		end           bool
		out, problems string
	}{
		"none":        {},
		"help":        {args: []string{"--help"}, end: true, out: "STREAMING_HUB_*"},
		"short_help":  {args: []string{"-h"}, end: true, out: "hub settings"},
		"version":     {args: []string{"--version"}, end: true, out: "dataplane 1.2.3"},
		"nonsense":    {args: []string{"--nonsense"}, status: 2, end: true, problems: `"--nonsense"`},
		"a_word":      {args: []string{"start"}, status: 2, end: true, problems: `"start"`},
		"help_and_so": {args: []string{"--help", "x"}, status: 2, end: true, problems: `"--help"`},
	} {
		t.Run(name, func(t *testing.T) {
			var out, problems bytes.Buffer
			status, end := Judge(&out, &problems, "dataplane", "1.2.3", c.args)
			if status != c.status || end != c.end || !strings.Contains(out.String(), c.out) || !strings.Contains(problems.String(), c.problems) ||
				(c.out == "") != (out.Len() == 0) || (c.problems == "") != (problems.Len() == 0) {
				t.Errorf("status %d, end %t, said %q and %q", status, end, out.String(), problems.String())
			}
		})
	}
}
