package graph

import (
	"context"
	"reflect"
	"strings"
	"unicode/utf8"

	"github.com/99designs/gqlgen/graphql"
)

// checkFilter refuses a filter with an empty text, before anything reads it. It
// could be meant as any, or be a slip: an empty tenant would list all of them.
// A text that Postgres cannot hold is in no row either.
func checkFilter(ctx context.Context, next graphql.Resolver) (any, error) {
	fc := graphql.GetFieldContext(ctx)
	if filter, given := fc.Args["filter"]; given {
		if err := judgeFilter(filter); err != nil {
			return nil, err
		}
	}
	return next(ctx)
}

// judgeFilter looks at the texts of a filter, a pointer to one of the models.
func judgeFilter(filter any) error {
	v := reflect.ValueOf(filter)
	if v.Kind() != reflect.Pointer || v.IsNil() {
		return nil
	}
	v = v.Elem()
	for i := range v.NumField() {
		text, ok := v.Field(i).Interface().(*string)
		if !ok || text == nil {
			continue
		}
		name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
		switch {
		case *text == "":
			return apiErrorf(codeBadInput, "filter.%s is empty; leave it out to ask for any", name)
		case !utf8.ValidString(*text) || strings.ContainsRune(*text, 0):
			return apiErrorf(codeBadInput, "filter.%s is not plain text", name)
		}
	}
	return nil
}
