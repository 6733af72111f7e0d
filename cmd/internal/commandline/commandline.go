// Package commandline is the command line of the programs that have none: they
// are set up by settings.
package commandline

import (
	"fmt"
	"io"
)

// Judge reads the arguments behind a program's name and says whether the
// program is to end instead of starting, and with which exit status. A mistyped
// flag must not start a server that goes without it.
func Judge(out, problems io.Writer, program, version string, args []string) (status int, end bool) {
	if len(args) == 0 {
		return 0, false
	}
	if len(args) == 1 {
		switch args[0] {
		case "-h", "-help", "--help":
			fmt.Fprintf(out, "%s takes no arguments: it is set up by STREAMING_HUB_* settings, which `hub settings` lists.\n", program)
			return 0, true
		case "-version", "--version":
			fmt.Fprintf(out, "%s %s\n", program, version)
			return 0, true
		}
	}
	fmt.Fprintf(problems, "%s: there are no arguments such as %q; `hub settings` lists the settings.\n", program, args[0])
	return 2, true
}
