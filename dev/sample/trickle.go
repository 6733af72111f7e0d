package sample

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/streaming-hub/streaming-hub/hub"
)

// Sources are the applications whose facts Next makes.
var Sources = [...]string{"lender", "tracer"}

// kinds of facts, each with a body made from a random source.
var kinds = [...]struct {
	source, resource, event string
	body                    func(id string, r *rand.Rand) any
}{
	{"lender", "loan_application", "submitted", application("under_review")},
	{"lender", "loan_application", "approved", application("approved")},
	{"lender", "loan_application", "declined", application("declined")},
	{"lender", "loan", "disbursed", func(id string, r *rand.Rand) any {
		return map[string]any{"loanId": id, "amount": money(r), "currency": "BRL", "installments": 6 + r.IntN(43)}
	}},
	{"lender", "installment", "paid", func(id string, r *rand.Rand) any {
		return map[string]any{"loanId": id, "number": 1 + r.IntN(24), "amount": money(r), "currency": "BRL"}
	}},
	{"tracer", "transaction", "validated", transaction("ALLOW")},
	{"tracer", "transaction", "flagged", transaction("REVIEW")},
	{"tracer", "limit", "exceeded", func(id string, r *rand.Rand) any {
		return map[string]any{"accountId": id, "limit": "daily_transfer", "used": money(r), "currency": "BRL"}
	}},
}

func application(status string) func(string, *rand.Rand) any {
	return func(id string, r *rand.Rand) any {
		return map[string]any{"applicationId": id, "status": status, "requested": money(r), "currency": "BRL", "score": 300 + r.IntN(700)}
	}
}

func transaction(decision string) func(string, *rand.Rand) any {
	return func(id string, r *rand.Rand) any {
		return map[string]any{"transactionId": id, "decision": decision, "amount": money(r), "currency": "BRL", "rulesFired": r.IntN(4)}
	}
}

func money(r *rand.Rand) string { return fmt.Sprintf("%d.%02d", 10+r.IntN(90_000), r.IntN(100)) }

// Next is a realistic fact of the tenant, drawn from r.
func Next(tenant string, r *rand.Rand, now time.Time) Fact {
	k := kinds[r.IntN(len(kinds))]
	random := randomBytes{r}
	subject := hub.NewID(now, random).String()
	body, err := json.Marshal(k.body(subject, r))
	if err != nil {
		panic("sample: a body of strings and numbers always marshals: " + err.Error())
	}
	return Fact{
		ID: hub.NewID(now, random).String(), Source: k.source, ResourceType: k.resource, EventType: k.event,
		SchemaVersion: "1.0.0", TenantID: tenant, Time: now, Subject: subject, ContentType: "application/json", Body: body,
	}
}

// randomBytes reads from a seedable source.
type randomBytes struct{ r *rand.Rand }

func (b randomBytes) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = byte(b.r.Uint32())
	}
	return len(p), nil
}
