package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"sync"

	"github.com/streaming-hub/streaming-hub/dev/receiver"
)

type receiveCommand struct {
	Addr      string   `default:"127.0.0.1:8082" help:"host:port to listen on."`
	Secret    []string `help:"Signing secret whsec_… to accept on every path; may be repeated. More can be added by PUT /secrets."`
	CountOnly bool     `help:"Remember no requests, only count them: for load tests."`
	Keep      int      `default:"1000" help:"How many requests to remember."`
	Quiet     bool     `short:"q" help:"Show no line for each request."`
}

func (c *receiveCommand) Run(ctx context.Context, out io.Writer) error {
	s, err := load()
	if err != nil {
		return err
	}
	o := receiver.Options{Secrets: map[string][]string{"": c.Secret}, HeaderPrefix: s.HeaderPrefix, Keep: c.Keep, CountOnly: c.CountOnly}
	if !c.Quiet && !c.CountOnly {
		var mu sync.Mutex
		o.Observe = func(r receiver.Observation) {
			mu.Lock()
			defer mu.Unlock()
			verdict := "verified"
			if !r.Verified {
				verdict = "not verified"
			}
			fmt.Fprintf(out, "%s  %s  %s  attempt %s  %d bytes  %s\n", r.At.UTC().Format("15:04:05.000"), r.Path,
				or(r.Header.Get(s.HeaderPrefix+"Event-Type"), "(no event type)"), or(r.Header.Get(s.HeaderPrefix+"Attempt"), "?"), len(r.Body), verdict)
		}
	}
	r, err := receiver.New(o)
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", c.Addr)
	if err != nil {
		return fmt.Errorf("start the receiver: %w", err)
	}
	if _, err := fmt.Fprintf(out, "Receiving webhooks on http://%s; GET / says what it can do.\n", l.Addr()); err != nil {
		return err
	}
	return r.Serve(ctx, l)
}
