package main

import (
	"fmt"
	"io"
	"runtime"
)

// version is set by the linker.
var version = "dev"

type versionCommand struct{}

func (versionCommand) Run(out io.Writer) error {
	_, err := fmt.Fprintf(out, "streaming-hub %s (%s)\n", version, runtime.Version())
	return err
}
