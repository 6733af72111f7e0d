package controlplane

import (
	"errors"
	"fmt"
	"strings"
)

// UserErrorCode says what kind of mistake an input holds.
type UserErrorCode string

const (
	Invalid        UserErrorCode = "INVALID"
	Required       UserErrorCode = "REQUIRED"
	NotFound       UserErrorCode = "NOT_FOUND"
	TenantMismatch UserErrorCode = "TENANT_MISMATCH"
	Conflict       UserErrorCode = "CONFLICT"
	Unavailable    UserErrorCode = "UNAVAILABLE"
)

// UserError is a mistake in an input: understood, but it cannot be done. It is
// part of an answer and no error of the hub.
type UserError struct {
	Code    UserErrorCode
	Message string   // one sentence for people
	Path    []string // where in the input, from the outside in
}

// Error makes a single UserError usable as an error inside this package.
func (e UserError) Error() string { return e.Message }

func userError(code UserErrorCode, path []string, format string, args ...any) UserError {
	return UserError{Code: code, Message: fmt.Sprintf(format, args...), Path: path}
}

// userErrorList makes several UserErrors usable as one error inside this
// package.
type userErrorList []UserError

func (l userErrorList) Error() string {
	texts := make([]string, len(l))
	for i := range l {
		texts[i] = l[i].Message
	}
	return strings.Join(texts, "; ")
}

// asUserErrors finds the user errors that ended a use case.
func asUserErrors(err error) ([]UserError, bool) {
	var one UserError
	var list userErrorList
	switch {
	case errors.As(err, &list):
		return list, true
	case errors.As(err, &one):
		return []UserError{one}, true
	}
	return nil, false
}
