package graph

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/streaming-hub/streaming-hub/graph/generated"
	"github.com/streaming-hub/streaming-hub/graph/model"
)

// goName is a field's name in Go, as far as payloads have them.
func goName(name string) string { return strings.ToUpper(name[:1]) + name[1:] }

// fill gives every field in v some value, those that are not exported apart.
func fill(t *testing.T, v reflect.Value, path string, depth int) {
	t.Helper()
	if v.Type() == reflect.TypeFor[time.Time]() {
		v.Set(reflect.ValueOf(time.Date(2026, 1, 31, 12, 4, 5, 123456000, time.UTC)))
		return
	}
	if v.Type() == reflect.TypeFor[json.RawMessage]() {
		v.SetBytes([]byte(`{"a":1}`))
		return
	}
	if scope, ok := v.Addr().Interface().(*model.Scope); ok {
		*scope = model.ScopeTenant
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		if depth > 12 {
			return
		}
		v.Set(reflect.New(v.Type().Elem()))
		fill(t, v.Elem(), path, depth+1)
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() {
				fill(t, v.Field(i), path+"."+f.Name, depth+1)
			}
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(t, v.Index(0), path+"[]", depth+1)
	case reflect.Array:
		for i := range v.Len() {
			fill(t, v.Index(i), path, depth+1)
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
	case reflect.String:
		v.SetString("text")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(7)
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		v.SetUint(7)
	case reflect.Float32, reflect.Float64:
		v.SetFloat(0.5)
	default:
		t.Errorf("%s is a %s, which a remembered answer cannot hold", path, v.Type())
	}
}

// A remembered payload says all that the first one said, also what its fields
// are resolved from.
func TestIdempotency_every_payload_survives(t *testing.T) {
	schema := generated.NewExecutableSchema(generated.Config{}).Schema()
	for _, m := range schema.Mutation.Fields {
		t.Run(m.Name, func(t *testing.T) {
			p, err := payloadOf(m.Name)
			if err != nil {
				t.Fatal(err)
			}
			fill(t, p.Elem(), p.Elem().Type().Name(), 0)
			raw, err := json.Marshal(p.Interface())
			if err != nil {
				t.Fatal(err)
			}
			got, err := remembered(m.Name, raw)
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(got, p.Interface()) {
				again, _ := json.Marshal(got)
				t.Errorf("was %s\nis  %s", raw, again)
				differ(t, m.Name, reflect.ValueOf(got), p)
			}
			if f := p.Elem().FieldByName("UserErrors"); !f.IsValid() {
				t.Error("it has no userErrors to refuse a key with")
			}
			input := m.Arguments.ForName("input")
			if len(m.Arguments) != 1 || input == nil || schema.Types[input.Type.Name()].Fields.ForName("idempotencyKey") == nil {
				t.Error("it does not take one input with an idempotencyKey")
			}
		})
	}
}

// differ names the first fields that differ.
func differ(t *testing.T, path string, a, b reflect.Value) {
	t.Helper()
	switch {
	case a.Kind() == reflect.Pointer && !a.IsNil() && !b.IsNil():
		differ(t, path, a.Elem(), b.Elem())
	case a.Kind() == reflect.Slice && a.Len() == b.Len() && a.Len() == 1:
		differ(t, path+"[]", a.Index(0), b.Index(0))
	case a.Kind() == reflect.Struct && a.Type() != reflect.TypeFor[time.Time]():
		for i := range a.NumField() {
			if a.Type().Field(i).IsExported() {
				differ(t, path+"."+a.Type().Field(i).Name, a.Field(i), b.Field(i))
			}
		}
	case !reflect.DeepEqual(a.Interface(), b.Interface()):
		t.Errorf("%s differs: %v, %v", path, a, b)
	}
}

func TestIdempotency_calls_are_compared_as_given(t *testing.T) {
	hash := func(mutation string, input map[string]any) [32]byte {
		c, err := callOf(mutation, "k", input)
		if err != nil {
			t.Fatal(err)
		}
		return c.Hash
	}
	base := hash("m", map[string]any{"a": "1", "b": nil, "idempotencyKey": "k"})
	if base != hash("m", map[string]any{"b": nil, "a": "1", "idempotencyKey": "another"}) {
		t.Error("order or the key itself counts")
	}
	for name, other := range map[string][32]byte{
		"absent_is_not_null":  hash("m", map[string]any{"a": "1"}),
		"another_value":       hash("m", map[string]any{"a": "2", "b": nil}),
		"another_mutation":    hash("n", map[string]any{"a": "1", "b": nil}),
		"another_type":        hash("m", map[string]any{"a": 1, "b": nil}),
		"a_field_more":        hash("m", map[string]any{"a": "1", "b": nil, "c": false}),
		"a_list_of_the_value": hash("m", map[string]any{"a": []any{"1"}, "b": nil}),
	} {
		if other == base {
			t.Error(name)
		}
	}
	input := map[string]any{"a": "1", "idempotencyKey": "k"}
	if hash("m", input); input["idempotencyKey"] != "k" {
		t.Error("the input was changed")
	}
}
