package stack

import (
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/streaming-hub/streaming-hub/dev/receiver"
)

const (
	// shownDeliveries is how many deliveries get a line before the screen goes
	// calm.
	shownDeliveries = 5
	// shownFailures is how many of a path's row of failures get one.
	shownFailures = 5
)

// screen is what the person at the terminal sees.
type screen struct {
	prefix string // of the hub's HTTP headers

	mu        sync.Mutex
	out       io.Writer
	isReady   bool
	delivered int
	failed    map[string]int // in a row, by path
}

func newScreen(out io.Writer, prefix string) *screen {
	return &screen{prefix: prefix, out: out, failed: map[string]int{}}
}

func (s *screen) line(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fmt.Fprintf(s.out, format+"\n", args...)
}

const readyText = `
Streaming Hub is running.

  Console        %[1]s
  log in         %[1]s#token=%[2]s
                 as tenant %[3]s; a token for all tenants is in %[4]s/dev.json
  GraphQL        %[5]s
  Pull           %[10]s
  Receiver       %[6]s (GET / says what it can do)
  Kafka          %[7]s
  Postgres       %[8]s
  Logs           %[4]s/logs/

Tenant %[3]s has two subscriptions: "Everything" takes all its events to
%[6]s/hooks/all, "Lender only" takes those of the
source lender to %[6]s/hooks/lender.

Try:

  publish a fact         bin/hub produce --brokers %[7]s --tenant %[3]s --source lender --event loan_application.approved
  look into the topic    kcat -C -b %[7]s -t %[9]s.lender -o -1 -e -f '%%h\n%%s\n'
  see what arrived       curl -s '%[6]s/requests?limit=1'
  fail twice, then work  curl -X PUT %[6]s/script/hooks/all -d '{"answers":[{"status":500,"times":2},{"status":200}]}'
  stay broken            curl -X PUT %[6]s/script/hooks/all -d '{"answers":[{"status":503}]}'
  work again             curl -X DELETE %[6]s/script/hooks/all
  ask the API            curl -s %[5]s -H 'Authorization: Bearer %[2]s' -H 'Content-Type: application/json' \
                           -d '{"query":"{ deliveries(first: 3) { nodes { state attemptCount explanation event { eventType seq } } } }"}'
  read by pull           curl -s '%[10]s?after_seq=earliest&limit=3' -H 'Authorization: Bearer %[2]s'

%[11]s
Ctrl-C stops everything; the next run finds its data again in %[4]s.
`

// retryText says when what failed is tried again, as far as the environment of
// the planes tells.
func retryText(environ []string) string {
	const name = "STREAMING_HUB_DEFAULT_RETRY_STEPS"
	for _, pair := range environ {
		if steps, ok := strings.CutPrefix(pair, name+"="); ok && steps != "" {
			return "A delivery is tried after waits of up to " + steps + ", as " + name + " says; then it is dead."
		}
	}
	return "A failed delivery is tried again within 5 seconds, then within 5 minutes, and so on, for a day;\n" +
		name + "=0s,1s,2s,4s in the environment hastens that."
}

// ready says where everything is; from then on attempts are shown.
func (sc *screen) ready(s *Stack) {
	defer func() {
		sc.mu.Lock()
		defer sc.mu.Unlock()
		sc.isReady = true
	}()
	st := s.state
	sc.line(readyText, st.ConsoleURL, st.TenantToken, st.TenantID, relative(s.o.StateDir), st.GraphQLURL,
		st.ReceiverURL, st.KafkaBrokers, st.PostgresDSN, s.o.Prefixes.Topic, st.PullURL, retryText(s.o.Environ))
}

// attempt shows the first deliveries, of failures the first of each row, and
// what ends a row; probes are not shown.
func (s *screen) attempt(o receiver.Observation) {
	if o.Header.Get(s.prefix+"Event-Type") == receiver.VerificationType {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.isReady {
		return // what waited from the last run would hide where everything is
	}
	if o.Status/100 != 2 {
		s.failed[o.Path]++
		s.show("failed", o, fmt.Sprintf("answered %d", o.Status), s.failed[o.Path], shownFailures,
			"… and so on. The API says where each delivery stands and what comes next.")
		return
	}
	recovered := s.failed[o.Path] > 0
	delete(s.failed, o.Path)
	s.delivered++
	signature := "signature verified"
	if !o.Verified {
		signature = "SIGNATURE NOT VERIFIED"
	}
	nth := s.delivered
	if recovered && nth > shownDeliveries {
		nth = 1 // the first after failures is news
	}
	s.show("delivered", o, signature, nth, shownDeliveries,
		"… and so on, quietly from here. Failures and warnings of the planes will show.")
}

// show writes a line for the nth of its kind, up to the last one that is
// shown, which the text that ends the row follows.
func (s *screen) show(what string, o receiver.Observation, how string, nth, last int, end string) {
	if nth > last {
		return
	}
	fmt.Fprintf(s.out, "%-9s  %s from %s, seq %s, attempt %s, to %s: %s\n", what, o.Header.Get(s.prefix+"Event-Type"),
		o.Header.Get(s.prefix+"Event-Source"), o.Header.Get(s.prefix+"Seq"), o.Header.Get(s.prefix+"Attempt"), o.Path, how)
	if nth == last {
		fmt.Fprintln(s.out, end)
	}
}
