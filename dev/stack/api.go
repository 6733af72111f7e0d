package stack

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// api calls GraphQL as any client would.
type api struct {
	url   string
	token string
}

// apiTimeout is above the longest operation: a verification probe of 15 s.
const apiTimeout = 30 * time.Second

// errUnauthenticated means that the token lets nobody in.
var errUnauthenticated = errors.New("the API token is not accepted")

// userError is a domain error in a mutation's payload.
type userError struct {
	Code    string   `json:"code"`
	Message string   `json:"message"`
	Path    []string `json:"path"`
}

// fault makes an error of a mutation's user errors, nil of none.
func fault(what string, list []userError) error {
	if len(list) == 0 {
		return nil
	}
	var said []string
	for _, e := range list {
		said = append(said, fmt.Sprintf("%s (%s)", e.Message, e.Code))
	}
	return fmt.Errorf("%s: %s", what, strings.Join(said, "; "))
}

// do runs one operation and decodes its data into out.
func (a api) do(ctx context.Context, query string, variables map[string]any, out any) error {
	ctx, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	body, err := json.Marshal(map[string]any{"query": query, "variables": variables})
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, "POST", a.url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+a.token)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return fmt.Errorf("call the API: %w", err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, 8<<20))
	if err != nil {
		return fmt.Errorf("read the API's answer: %w", err)
	}
	if resp.StatusCode == http.StatusUnauthorized {
		return errUnauthenticated
	}
	var answer struct {
		Data   json.RawMessage `json:"data"`
		Errors []struct {
			Message    string `json:"message"`
			Extensions struct {
				Code string `json:"code"`
			} `json:"extensions"`
		} `json:"errors"`
	}
	if err := json.Unmarshal(text, &answer); err != nil {
		return fmt.Errorf("the API answered %s with something else than JSON: %.200q", resp.Status, text)
	}
	if len(answer.Errors) > 0 {
		first := answer.Errors[0]
		if first.Extensions.Code == "UNAUTHENTICATED" {
			return errUnauthenticated
		}
		return fmt.Errorf("the API answered: %s (%s)", first.Message, first.Extensions.Code)
	}
	return json.Unmarshal(answer.Data, out)
}
