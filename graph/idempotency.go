package graph

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"strings"

	"github.com/99designs/gqlgen/graphql"

	"github.com/streaming-hub/streaming-hub/controlplane"
	"github.com/streaming-hub/streaming-hub/graph/generated"
)

// shownOnce are the fields of payloads that hold what is shown once.
var shownOnce = map[string]bool{"SigningSecret": true, "Token": true}

// oncePerClick are the mutations that make something new with every call, and
// that a double click means once, also without a key.
var oncePerClick = map[string]bool{"previewReplay": true, "previewBackfill": true}

// once runs a mutation whose input has an idempotency key only if no call
// before it had the same key, nor the same click; else it has the answer of that one. What is
// remembered is the payload, from which any selection is resolved.
func (r *Resolver) once(ctx context.Context, next graphql.Resolver) (any, error) {
	fc := graphql.GetFieldContext(ctx)
	if fc.Object != "Mutation" {
		return next(ctx)
	}
	input, _ := fc.Field.ArgumentMap(graphql.GetOperationContext(ctx).Variables)["input"].(map[string]any)
	key, keyed := input["idempotencyKey"].(string)
	if !keyed && !oncePerClick[fc.Field.Name] {
		return next(ctx)
	}
	call, err := callOf(fc.Field.Name, key, input)
	if err != nil {
		return nil, err
	}
	call.Click = !keyed
	var payload any
	earlier, refused, err := r.Idempotency.Once(ctx, actorOf(ctx), call, func(ctx context.Context) (answer controlplane.Answer, err error) {
		if payload, err = next(ctx); err != nil {
			return answer, err
		}
		answer.Secret = showsSecret(payload)
		answer.Bytes, err = json.Marshal(payload)
		return answer, err
	})
	switch {
	case err != nil:
		return nil, err
	case refused != nil:
		return refusal(fc.Field.Name, refused)
	case earlier != nil:
		return remembered(fc.Field.Name, earlier)
	}
	return payload, nil
}

// callOf is a call as it is compared with later ones: the values as they were
// given, so that absent and null are not the same.
func callOf(mutation, key string, input map[string]any) (c controlplane.Call, err error) {
	asked := maps.Clone(input)
	delete(asked, "idempotencyKey")
	canonical, err := json.Marshal([]any{mutation, asked}) // sorts by name
	if err != nil {
		return c, fmt.Errorf("compare calls of %s: %w", mutation, err)
	}
	tenant, _ := input["tenantId"].(string)
	return controlplane.Call{Key: key, Operation: mutation, Hash: sha256.Sum256(canonical), Tenant: tenant}, nil
}

// payloadOf is a new payload of a mutation.
func payloadOf(mutation string) (reflect.Value, error) {
	resolvers := reflect.TypeFor[generated.MutationResolver]()
	for i := range resolvers.NumMethod() {
		if m := resolvers.Method(i); strings.EqualFold(m.Name, mutation) {
			return reflect.New(m.Type.Out(0).Elem()), nil
		}
	}
	return reflect.Value{}, fmt.Errorf("there is no resolver of mutation %s", mutation)
}

// remembered is a payload as it was returned before.
func remembered(mutation string, answer []byte) (any, error) {
	p, err := payloadOf(mutation)
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(answer, p.Interface()); err != nil {
		return nil, fmt.Errorf("read the remembered answer of %s: %w", mutation, err)
	}
	return p.Interface(), nil
}

// refusal is a payload with nothing but a user error.
func refusal(mutation string, e *controlplane.UserError) (any, error) {
	p, err := payloadOf(mutation)
	if err != nil {
		return nil, err
	}
	for i := range p.Elem().NumField() {
		if f := p.Elem().Field(i); f.Kind() == reflect.Slice {
			f.Set(reflect.MakeSlice(f.Type(), 0, 0))
		}
	}
	p.Elem().FieldByName("UserErrors").Set(reflect.ValueOf([]*controlplane.UserError{e}))
	return p.Interface(), nil
}

// showsSecret reports whether a payload holds what is shown this once.
func showsSecret(payload any) bool {
	v := reflect.ValueOf(payload)
	if v.Kind() != reflect.Pointer || v.IsNil() {
		return false
	}
	for name := range shownOnce {
		if f := v.Elem().FieldByName(name); f.IsValid() && !f.IsZero() {
			return true
		}
	}
	return false
}
