package settings

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"regexp"
	"strconv"
	"strings"

	"github.com/streaming-hub/streaming-hub/hub"
	"github.com/streaming-hub/streaming-hub/hub/secret"
)

// that is the setting with a form that its value must have; allowed says it to
// people.
func (d setting) that(allowed string, judge func(string) error) setting {
	parse := d.parse
	d.allowed = allowed
	d.parse = func(v string) error {
		if err := judge(v); err != nil {
			return err
		}
		return parse(v)
	}
	return d
}

// Forms of texts.
var (
	dotted    = regexp.MustCompile(`^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*$`)
	fieldName = regexp.MustCompile(`^[A-Za-z0-9-]{1,64}$`)
)

func listenAddress(v string) error {
	_, port, err := net.SplitHostPort(v)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	if err != nil {
		return errors.New("must be host:port or :port, the port a number from 0 to 65535")
	}
	return nil
}

func dottedWords(v string) error {
	if !dotted.MatchString(v) || len(v) > 128 {
		return errors.New("must be words of letters, digits, _ and - with dots between them, 128 bytes at most")
	}
	return nil
}

func headerPrefix(v string) error {
	if !fieldName.MatchString(v) {
		return errors.New("must be 1 to 64 letters, digits and hyphens, the beginning of a header's name")
	}
	return nil
}

func tenantName(v string) error {
	if !hub.TenantID(v).Valid() {
		return errors.New("must be 1 to 256 letters, digits, _ and -, a letter or digit first")
	}
	return nil
}

func webURL(v string) error {
	u, err := url.Parse(v)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return errors.New("must be an http or https URL without user, query and fragment")
	}
	return nil
}

func origins(v string) error {
	for _, o := range split(v) {
		if u, err := url.Parse(o); webURL(o) != nil || err != nil || u.Path != "" {
			return fmt.Errorf("must be origins such as https://console.example.com; %q is none", o)
		}
	}
	return nil
}

// keyring judges keys without repeating any.
func keyring(v string) error {
	_, err := secret.ParseKeyring(strings.TrimSpace(v))
	return err
}

// contradictions are what settings say together that cannot be.
func (s *Settings) contradictions() (faults []string) {
	if !s.MultiTenantEnabled && s.TenantID == "" {
		faults = append(faults, Prefix+"MULTI_TENANT_ENABLED=false needs "+Prefix+"TENANT_ID, the only tenant")
	}
	if s.AutodisableFailureSpread > s.AutodisableFailureWindow {
		faults = append(faults, fmt.Sprintf("%sAUTODISABLE_FAILURE_SPREAD=%s is longer than %sAUTODISABLE_FAILURE_WINDOW=%s",
			Prefix, plain(s.AutodisableFailureSpread), Prefix, plain(s.AutodisableFailureWindow)))
	}
	return faults
}
