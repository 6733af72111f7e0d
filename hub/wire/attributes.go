package wire

import (
	"unicode/utf8"
)

// attribute is the place of an attribute in the table. The order of the
// constants is the order of the checks.
type attribute int

const (
	specVersion attribute = iota
	id
	source
	ceType
	ceTime
	schemaVersion
	resourceType
	eventType
	tenantID
	subject
	dataContentType
	dataSchema
	systemEvent
	attributes // their number
)

// table holds the rule of each attribute that the hub knows. Lengths are in
// bytes; 0 leaves the length to the budget of all headers. valid sees only
// values that are not empty, in UTF-8 and without control characters.
var table = [attributes]struct {
	name   string
	needed bool
	max    int
	valid  func(string) bool
}{
	specVersion:     {name: "specversion", needed: true},
	id:              {name: "id", needed: true, max: 256},
	source:          {name: "source", needed: true, max: 223, valid: IsSource},
	ceType:          {name: "type", needed: true},
	ceTime:          {name: "time", needed: true, valid: isTime},
	schemaVersion:   {name: "schemaversion", needed: true, max: 64, valid: isSchemaVersion},
	resourceType:    {name: "resourcetype", needed: true, max: 128, valid: hasNoDot},
	eventType:       {name: "eventtype", needed: true, max: 128, valid: hasNoDot},
	tenantID:        {name: "tenantid", needed: true, max: 256, valid: isTenant},
	subject:         {name: "subject", max: 1024},
	dataContentType: {name: "datacontenttype", max: 256},
	dataSchema:      {name: "dataschema", max: 2048},
	systemEvent:     {name: "systemevent"},
}

// known finds an attribute by its lower-case name.
func known(name string) (attribute, bool) {
	switch name {
	case "specversion":
		return specVersion, true
	case "id":
		return id, true
	case "source":
		return source, true
	case "type":
		return ceType, true
	case "time":
		return ceTime, true
	case "schemaversion":
		return schemaVersion, true
	case "resourcetype":
		return resourceType, true
	case "eventtype":
		return eventType, true
	case "tenantid":
		return tenantID, true
	case "subject":
		return subject, true
	case "datacontenttype":
		return dataContentType, true
	case "dataschema":
		return dataSchema, true
	case "systemevent":
		return systemEvent, true
	default:
		return 0, false
	}
}

// isClean reports whether a value is valid UTF-8 without control characters,
// 0x00–0x1F and 0x7F.
func isClean(s string) bool {
	ascii := true
	for i := range len(s) {
		c := s[i]
		if c < 0x20 || c == 0x7f {
			return false
		}
		if c >= utf8.RuneSelf {
			ascii = false
		}
	}
	return ascii || utf8.ValidString(s)
}

// IsSource reports whether s can be a source, apart from its length:
// ^[a-z0-9][a-z0-9_-]*$.
func IsSource(s string) bool {
	for i := range len(s) {
		c := s[i]
		if 'a' <= c && c <= 'z' || '0' <= c && c <= '9' {
			continue
		}
		if i == 0 || c != '_' && c != '-' {
			return false
		}
	}
	return s != ""
}

// isTenant reports ^[a-zA-Z0-9][a-zA-Z0-9_-]*$.
func isTenant(s string) bool {
	for i := range len(s) {
		c := s[i]
		if 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' {
			continue
		}
		if i == 0 || c != '_' && c != '-' {
			return false
		}
	}
	return s != ""
}

func hasNoDot(s string) bool {
	for i := range len(s) {
		if s[i] == '.' {
			return false
		}
	}
	return true
}

// tokenByte holds the bytes of an HTTP header name (RFC 9110, section 5.6.2).
var tokenByte = func() (set [256]bool) {
	for c := '0'; c <= '9'; c++ {
		set[c] = true
	}
	for c := 'a'; c <= 'z'; c++ {
		set[c], set[c-'a'+'A'] = true, true
	}
	for _, c := range "!#$%&'*+-.^_`|~" {
		set[c] = true
	}
	return set
}()

// isToken reports whether a name can be part of an HTTP header's name. An
// extension with another name could never be delivered.
func isToken(s string) bool {
	for i := range len(s) {
		if !tokenByte[s[i]] {
			return false
		}
	}
	return s != ""
}
