package address

import (
	"errors"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/net/idna"
)

// registrable is IDNA without any mapping: a name must already be what it
// means. Browsers map full-width digits, circled letters and exotic dots to
// ASCII before they look at a host; here such a host is refused, because a
// name that changes under the reader's eyes is an attempt to deceive or a
// mistake. Hyphens in the third and fourth place are common in real names; those
// at the ends of a label are refused by hyphenated.
var registrable = idna.New(
	idna.ValidateForRegistration(),
	idna.StrictDomainName(true),
	idna.VerifyDNSLength(true),
	idna.CheckJoiners(true),
	idna.BidiRule(),
	idna.CheckHyphens(false),
)

// canonicalName is a host name in lower-case ASCII without a trailing dot.
func canonicalName(name string) (string, error) {
	name = strings.TrimSuffix(name, ".")
	if name == "" {
		return "", errors.New("the URL has no host; write it as https://host/path")
	}
	lowered, ok := lowerCase(name)
	if !ok {
		return "", errHostName
	}
	ascii, err := registrable.ToASCII(lowered)
	if err != nil || !isASCII(ascii) || hyphenated(ascii) {
		return "", errHostName
	}
	// A label that is already in punycode must be one that IDNA would write.
	if strings.Contains(ascii, "xn--") {
		unicodeName, err := registrable.ToUnicode(ascii)
		if err != nil {
			return "", errHostName
		}
		if again, err := registrable.ToASCII(unicodeName); err != nil || again != ascii {
			return "", errHostName
		}
	}
	return ascii, nil
}

var errHostName = errors.New("the URL's host is not a valid name; write it in plain characters, without full-width or decorative forms")

// lowerCase maps letters to lower case, which changes no name's meaning. It
// refuses the few characters outside ASCII whose lower case is ASCII, such as
// the Kelvin sign.
func lowerCase(s string) (string, bool) {
	ok := true
	lowered := strings.Map(func(r rune) rune {
		l := unicode.ToLower(r)
		if r >= utf8.RuneSelf && l < utf8.RuneSelf {
			ok = false
		}
		return l
	}, s)
	return lowered, ok
}

// hyphenated reports whether a label begins or ends with a hyphen.
func hyphenated(name string) bool {
	for label := range strings.SplitSeq(name, ".") {
		if strings.HasPrefix(label, "-") || strings.HasSuffix(label, "-") {
			return true
		}
	}
	return false
}

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// looksNumeric reports whether some resolver would read a host as an IPv4
// address: its last label is a decimal, octal or hexadecimal number.
func looksNumeric(name string) bool {
	last := name[strings.LastIndexByte(name, '.')+1:]
	if hex, ok := strings.CutPrefix(last, "0x"); ok {
		return strings.Trim(hex, "0123456789abcdef") == ""
	}
	return strings.Trim(last, "0123456789") == ""
}

// inner are the names that lead inside: the machine, its network, its cloud.
// Each stands for itself and for everything under it.
var inner = [...]string{"local", "internal", "metadata", "instance-data"}

// checkName refuses names that can only lead inside. It is for a quick, clear
// answer; what a name resolves to is judged by Permits.
func (p Policy) checkName(name string) error {
	if under(name, "localhost") {
		if p.AllowLoopback {
			return nil
		}
		return errors.New("the URL's host is this machine (localhost); use a public name")
	}
	for _, suffix := range inner {
		if under(name, suffix) {
			return errors.New("the URL's host is a name of an internal network; use a public name")
		}
	}
	return nil
}

func under(name, parent string) bool {
	rest, ok := strings.CutSuffix(name, parent)
	return ok && (rest == "" || rest[len(rest)-1] == '.')
}
