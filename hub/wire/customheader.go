package wire

import (
	"errors"
	"fmt"
	"strings"

	"github.com/streaming-hub/streaming-hub/hub"
)

// Limits of a subscription's custom headers.
const (
	MaxCustomHeaders     = 32      // lines
	MaxCustomHeaderName  = 128     // bytes
	MaxCustomHeaderValue = 4 << 10 // bytes, after trimming
)

// reserved are names that no custom header may take, in lower case, with the
// reason for the tenant's developer.
var reserved = map[string]string{
	"host":                "is set by the hub",
	"user-agent":          "is set by the hub",
	"traceparent":         "is set by the hub",
	"tracestate":          "is set by the hub",
	"authorization":       "is a secret; set a credential on the destination instead",
	"cookie":              "is a secret; set a credential on the destination instead",
	"connection":          "belongs to one connection, not to the message",
	"keep-alive":          "belongs to one connection, not to the message",
	"proxy-authenticate":  "belongs to one connection, not to the message",
	"proxy-authorization": "belongs to one connection, not to the message",
	"proxy-connection":    "belongs to one connection, not to the message",
	"te":                  "belongs to one connection, not to the message",
	"trailer":             "belongs to one connection, not to the message",
	"transfer-encoding":   "belongs to one connection, not to the message",
	"upgrade":             "belongs to one connection, not to the message",
	"http2-settings":      "belongs to one connection, not to the message",
	"expect":              "changes how the request is sent",
}

// reservedPrefixes begin the names of the hub's own headers, beside those of
// the configured prefix.
var reservedPrefixes = [...]string{"content-", "ce-", "webhook-"}

// CustomHeaders judges all custom headers of a subscription and gives them as
// they are stored and sent: in their order, values without padding. prefix
// begins the hub's own headers (DefaultHeaderPrefix). The error is one
// sentence that names the header.
func CustomHeaders(prefix string, headers []hub.Header) ([]hub.Header, error) {
	if len(headers) > MaxCustomHeaders {
		return nil, fmt.Errorf("there are %d custom headers; at most %d are possible", len(headers), MaxCustomHeaders)
	}
	kept := make([]hub.Header, 0, len(headers))
	for _, h := range headers {
		h.Value = strings.Trim(h.Value, " \t")
		if err := CheckCustomHeaderUnder(prefix, h.Name, h.Value); err != nil {
			return nil, err
		}
		for _, other := range kept {
			if comparableName(other.Name) == comparableName(h.Name) {
				return nil, fmt.Errorf("the header %s is there twice", h.Name)
			}
		}
		kept = append(kept, h)
	}
	return kept, nil
}

// CheckCustomHeader judges one custom header under the default prefix; nil when
// it may be sent. Padding around the value is no fault: CustomHeaders trims it.
func CheckCustomHeader(name, value string) error {
	return CheckCustomHeaderUnder(DefaultHeaderPrefix, name, strings.Trim(value, " \t"))
}

// CheckCustomHeaderUnder does so when the hub's own headers begin with prefix,
// for a value without padding.
func CheckCustomHeaderUnder(prefix, name, value string) error {
	if err := checkHeaderName(name); err != nil {
		return err
	}
	lower := comparableName(name)
	if why, ok := reserved[lower]; ok {
		return fmt.Errorf("the header %s %s", name, why)
	}
	return checkFreeHeader(prefix, name, lower, value)
}

// CheckCredentialHeader judges the header that carries a credential:
// Authorization, or the name of an API key's header with its value. No error
// repeats the value.
func CheckCredentialHeader(prefix, name, value string) error {
	if err := checkHeaderName(name); err != nil {
		return err
	}
	lower := comparableName(name)
	if why, ok := reserved[lower]; ok && lower != "authorization" && lower != "cookie" {
		return fmt.Errorf("the header %s %s", name, why)
	}
	if value == "" {
		return fmt.Errorf("the header %s has no value", name)
	}
	return checkFreeHeader(prefix, name, lower, value)
}

// checkFreeHeader keeps a header out of the hub's own names, and its value to
// what every receiver reads alike.
func checkFreeHeader(prefix, name, lower, value string) error {
	if prefix == "" {
		prefix = DefaultHeaderPrefix
	}
	if strings.HasPrefix(lower, comparableName(prefix)) {
		return fmt.Errorf("the header %s begins like the hub's own (%s)", name, prefix)
	}
	for _, p := range reservedPrefixes {
		if strings.HasPrefix(lower, p) {
			return fmt.Errorf("the header %s begins like the hub's own (%s)", name, p)
		}
	}
	switch {
	case len(value) > MaxCustomHeaderValue:
		return fmt.Errorf("the value of the header %s has %d bytes; at most %d are possible", name, len(value), MaxCustomHeaderValue)
	case !isPrintable(value):
		return fmt.Errorf("the value of the header %s holds something else than visible ASCII characters and spaces", name)
	case strings.Trim(value, " ") != value:
		return fmt.Errorf("the value of the header %s begins or ends with a space", name)
	}
	return nil
}

// comparableName is a header name as receivers tell names apart: without case,
// and many of them without a difference between hyphen and underscore.
func comparableName(name string) string {
	return strings.ReplaceAll(strings.ToLower(name), "_", "-")
}

// checkHeaderName asks for a token of RFC 9110.
func checkHeaderName(name string) error {
	switch {
	case name == "":
		return errors.New("a header has no name")
	case len(name) > MaxCustomHeaderName:
		return fmt.Errorf("the header name %.32s… has %d bytes; at most %d are possible", name, len(name), MaxCustomHeaderName)
	}
	for i := range len(name) {
		if !isTokenByte(name[i]) {
			return fmt.Errorf("the header name %q holds something else than letters, digits and !#$%%&'*+-.^_`|~", name)
		}
	}
	return nil
}

func isTokenByte(c byte) bool {
	switch {
	case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		return true
	}
	return strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0
}
