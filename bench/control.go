package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"

	"github.com/streaming-hub/streaming-hub/access"
	"github.com/streaming-hub/streaming-hub/hub"
)

// startControl starts the control plane and waits until it is ready.
func (r *rig) startControl(ctx context.Context) (err error) {
	if _, err := os.Stat(r.o.controlplane); err != nil {
		return errors.New("bin/controlplane is not built: run make build, or make bench which does it")
	}
	if r.control, err = r.spawn(ctx, r.o.controlplane); err != nil {
		return err
	}
	return r.awaitReady(ctx, "the control plane", "http://"+r.control.addr)
}

// token makes a token that may read; tenant "" is all tenants.
func (r *rig) token(ctx context.Context, tenant hub.TenantID) (string, error) {
	text, _, err := access.NewTokens(r.store).Create(ctx, access.NewToken{Tenant: tenant, Name: "bench", Role: hub.Viewer})
	return text, err
}

// ask sends a query as a client would and decodes its data.
func (r *rig) ask(ctx context.Context, token, query string, variables map[string]any, into any) error {
	body, err := json.Marshal(map[string]any{"query": query, "variables": variables})
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+r.control.addr+"/graphql", bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+token)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		return err
	}
	var answer struct{ Data, Errors json.RawMessage }
	if err := json.Unmarshal(text, &answer); err != nil {
		return fmt.Errorf("the API answered %s with %.200q: %w", res.Status, text, err)
	}
	if len(answer.Errors) > 0 {
		return fmt.Errorf("the API answered with errors: %.500s", answer.Errors)
	}
	return json.Unmarshal(answer.Data, into)
}
