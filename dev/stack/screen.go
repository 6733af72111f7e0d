package stack

import (
	"fmt"
	"io"
	"sync"

	"github.com/streaming-hub/streaming-hub/dev/receiver"
)

// shownDeliveries is how many deliveries get a line before the screen goes
// calm.
const shownDeliveries = 5

// screen is what the person at the terminal sees.
type screen struct {
	prefix string // of the hub's HTTP headers

	mu    sync.Mutex
	out   io.Writer
	shown int
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

A failed delivery is tried again within 5 seconds, then within 5 minutes, and so on;
STREAMING_HUB_DEFAULT_RETRY_STEPS=0s,1s,2s,4s in the environment hastens that.
Ctrl-C stops everything; the next run finds its data again in %[4]s.
`

func (sc *screen) ready(s *Stack) {
	st := s.state
	sc.line(readyText, st.ConsoleURL, st.TenantToken, st.TenantID, relative(s.o.StateDir), st.GraphQLURL,
		st.ReceiverURL, st.KafkaBrokers, st.PostgresDSN, s.o.Prefixes.Topic, st.PullURL)
}

// delivery shows one of the first deliveries; probes are not shown.
func (s *screen) delivery(o receiver.Observation) {
	typ := o.Header.Get(s.prefix + "Event-Type")
	if typ == receiver.VerificationType {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.shown >= shownDeliveries {
		return
	}
	s.shown++
	signature := "signature verified"
	if !o.Verified {
		signature = "SIGNATURE NOT VERIFIED"
	}
	fmt.Fprintf(s.out, "delivered  %s from %s, seq %s, attempt %s, to %s: %s\n", typ, o.Header.Get(s.prefix+"Event-Source"),
		o.Header.Get(s.prefix+"Seq"), o.Header.Get(s.prefix+"Attempt"), o.Path, signature)
	if s.shown == shownDeliveries {
		fmt.Fprintln(s.out, "… and so on, quietly from here. Warnings of the planes will show.")
	}
}
