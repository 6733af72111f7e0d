package adminapi

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/streaming-hub/streaming-hub/access"
	"github.com/streaming-hub/streaming-hub/controlplane"
	"github.com/streaming-hub/streaming-hub/db"
	"github.com/streaming-hub/streaming-hub/hub"
)

const (
	maxLimit     = 100 // observations of a page
	defaultLimit = 20
	// answerTime bounds one request.
	answerTime = 10 * time.Second
)

// DLQ is the handler of GET /admin/dlq.
type DLQ struct {
	Observations *controlplane.Observations
	Tokens       *access.Tokens
	Log          *slog.Logger
}

// ServeHTTP answers a page.
func (d DLQ) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), answerTime)
	defer cancel()
	begin(w)
	answer, f := d.answer(ctx, r)
	if f != nil {
		refuse(w, f)
		return
	}
	write(w, answer)
}

func (d DLQ) answer(ctx context.Context, r *http.Request) (*page, *fault) {
	actor, f := authenticate(ctx, d.Tokens, r, controlplane.Read, d.away)
	if f != nil {
		return nil, f
	}
	p, f := parseParams(r.URL.RawQuery)
	if f != nil {
		return nil, f
	}
	ctx = actor.Within(ctx)
	found, err := d.Observations.Page(ctx, actor, p.filter, p.before, p.limit)
	if err != nil {
		return nil, d.away("read dead-letter observations", err)
	}
	var bodies map[hub.ID][]byte
	if p.body && len(found.Rows) > 0 {
		ids := make([]hub.ID, len(found.Rows))
		for i := range found.Rows {
			ids[i] = found.Rows[i].ID
		}
		if bodies, err = d.Observations.Bodies(ctx, ids); err != nil {
			return nil, d.away("read dead-letter observations", err)
		}
	}
	return pageOf(&found, bodies, p.body), nil
}

func (d DLQ) away(what string, err error) *fault {
	d.Log.Error("GET /admin/dlq failed", "error", err)
	return &fault{status: http.StatusServiceUnavailable, Code: "unavailable", Message: "the hub cannot " + what + " at the moment"}
}

type params struct {
	filter db.ObservationFilter
	before hub.ID
	limit  int
	body   bool
}

// parseParams reads the query of a request. Each parameter may be given once;
// unknown ones are faults, so that a misspelt filter is not one that lets
// everything through.
func parseParams(rawQuery string) (params, *fault) {
	p := params{before: controlplane.Newest, limit: defaultLimit}
	values, err := url.ParseQuery(rawQuery)
	if err != nil {
		return p, &fault{status: http.StatusBadRequest, Code: "bad_request", Message: fmt.Sprintf("the query is not well-formed: %v", err)}
	}
	for name, list := range values {
		read, ok := readers[name]
		err := fmt.Errorf("it is given %d times", len(list))
		switch {
		case !ok:
			err = errors.New("there is no such parameter")
		case len(list) == 1:
			err = read(&p, list[0])
		}
		if err != nil {
			return p, &fault{status: http.StatusBadRequest, Code: "bad_parameter", Message: fmt.Sprintf("%.40s: %v", name, err), Parameter: fmt.Sprintf("%.40s", name)}
		}
	}
	return p, nil
}

var readers = map[string]func(p *params, v string) error{
	"topic":       func(p *params, v string) error { p.filter.Topic = v; return nil },
	"source":      func(p *params, v string) error { p.filter.Source = v; return nil },
	"tenant":      func(p *params, v string) error { p.filter.Tenant = hub.TenantID(v); return nil },
	"error_class": func(p *params, v string) error { p.filter.ErrorClass = v; return nil },
	"writer": func(p *params, v string) error {
		p.filter.Writer = hub.DLQWriter(v)
		if p.filter.Writer != hub.WriterProducer && p.filter.Writer != hub.WriterConsumer {
			return errors.New("it is PRODUCER or CONSUMER")
		}
		return nil
	},
	"observed_after":  func(p *params, v string) (err error) { p.filter.After, err = moment(v); return err },
	"observed_before": func(p *params, v string) (err error) { p.filter.Before, err = moment(v); return err },
	"limit": func(p *params, v string) (err error) {
		if p.limit, err = strconv.Atoi(v); err != nil || p.limit < 1 || p.limit > maxLimit {
			return fmt.Errorf("it is a number from 1 to %d", maxLimit)
		}
		return nil
	},
	"after": func(p *params, v string) error {
		var ok bool
		if p.before, ok = controlplane.ParseGlobalID(controlplane.ObservationIDs, v); !ok {
			return errors.New("it is the next of an earlier answer")
		}
		return nil
	},
	"body": func(p *params, v string) (err error) {
		if p.body, err = strconv.ParseBool(v); err != nil {
			return errors.New("it is 1 or 0")
		}
		return nil
	},
}

func moment(v string) (time.Time, error) {
	t, err := time.Parse(time.RFC3339Nano, v)
	if err != nil {
		return t, errors.New("it is a time like 2026-01-31T12:04:05Z")
	}
	return t, nil
}

// page is the answer. The hub's own big numbers are strings.
type page struct {
	Observations []observation `json:"observations"`
	Next         *string       `json:"next"`
	HasMore      bool          `json:"has_more"`
}

type observation struct {
	ID                  string            `json:"id"`
	Writer              hub.DLQWriter     `json:"writer"`
	Topic               string            `json:"topic"`
	Partition           int32             `json:"partition"`
	Offset              int64             `json:"offset,string"`
	Source              string            `json:"source"`
	Tenant              string            `json:"tenant,omitempty"`
	ObservedAt          time.Time         `json:"observed_at"`
	Attributes          map[string]string `json:"attributes"`
	AttributesTruncated bool              `json:"attributes_truncated"`
	SourceTopic         string            `json:"source_topic,omitempty"`
	ErrorClass          string            `json:"error_class,omitempty"`
	ErrorMessage        string            `json:"error_message,omitempty"` // for ADMIN
	RetryCount          *int32            `json:"retry_count,omitempty"`
	FirstFailureAt      *time.Time        `json:"first_failure_at,omitempty"`
	ProducerID          string            `json:"producer_id,omitempty"`
	SourcePartition     *int32            `json:"source_partition,omitempty"`
	SourceOffset        *int64            `json:"source_offset,omitempty,string"`
	CauseKind           string            `json:"cause_kind,omitempty"`
	PayloadOmitted      *bool             `json:"payload_omitted,omitempty"`
	PayloadBytes        *int64            `json:"payload_bytes,omitempty,string"`
	SizeBytes           int32             `json:"size_bytes"`
	BodyTruncated       bool              `json:"body_truncated"`
	BodyBase64          *string           `json:"body_base64,omitempty"` // with body=1
}

func pageOf(found *db.Page[hub.Observation], bodies map[hub.ID][]byte, withBody bool) *page {
	p := &page{Observations: []observation{}, HasMore: found.More}
	for i := range found.Rows {
		o := observationOf(&found.Rows[i])
		if withBody {
			text := base64.StdEncoding.EncodeToString(bodies[found.Rows[i].ID])
			o.BodyBase64 = &text
		}
		p.Observations = append(p.Observations, o)
	}
	if found.More {
		next := controlplane.GlobalID(controlplane.ObservationIDs, found.End)
		p.Next = &next
	}
	return p
}

func observationOf(o *hub.Observation) observation {
	v := observation{
		ID: controlplane.GlobalID(controlplane.ObservationIDs, o.ID), Writer: o.Writer,
		Topic: o.Record.Topic, Partition: o.Record.Partition, Offset: o.Record.Offset,
		Source: controlplane.SourceOfDeadLetters(o.Record.Topic), Tenant: string(o.Tenant), ObservedAt: o.ObservedAt,
		Attributes: map[string]string{}, AttributesTruncated: o.AttributesCut,
		SourceTopic: o.SourceTopic, ErrorClass: o.ErrorClass, ErrorMessage: o.ErrorMessage, RetryCount: o.RetryCount, ProducerID: o.ProducerID,
		SourcePartition: o.SourcePartition, SourceOffset: o.SourceOffset, CauseKind: o.CauseKind,
		PayloadOmitted: o.PayloadOmitted, PayloadBytes: o.PayloadBytes,
		SizeBytes: o.BodyBytes, BodyTruncated: o.KeptBytes < o.BodyBytes,
	}
	for _, a := range o.Attributes {
		v.Attributes[a.Name] = a.Value
	}
	if !o.FirstFailureAt.IsZero() {
		v.FirstFailureAt = &o.FirstFailureAt
	}
	return v
}
