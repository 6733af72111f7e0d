package graph

import (
	"slices"
	"time"

	"github.com/99designs/gqlgen/graphql"

	"github.com/streaming-hub/streaming-hub/controlplane"
	"github.com/streaming-hub/streaming-hub/graph/model"
	"github.com/streaming-hub/streaming-hub/hub"
	"github.com/streaming-hub/streaming-hub/hub/secret"
)

// given keeps apart what is absent and what is null.
func given[T any](o graphql.Omittable[*T]) controlplane.Given[T] {
	v, set := o.ValueOK()
	return controlplane.Given[T]{Set: set, Value: v}
}

// orAbsent is an input of which absent and null are the same.
func orAbsent[T any](v *T) controlplane.Given[T] {
	return controlplane.Given[T]{Set: v != nil, Value: v}
}

// newDestination reads the settings of a new destination.
func newDestination(in *model.DestinationInput) (controlplane.DestinationInput, []controlplane.UserError, error) {
	policy, mistakes, err := failurePolicy(orAbsent(in.FailurePolicy))
	if err != nil {
		return controlplane.DestinationInput{}, nil, err
	}
	credential, err := credential(orAbsent(in.Credential))
	return controlplane.DestinationInput{
		RateLimit: orAbsent(in.RateLimit), MaxInFlight: orAbsent(in.MaxInFlight), FailurePolicy: policy,
		Credential: credential, Certificate: certificate(orAbsent(in.ClientCertificate)), SigningSecret: in.SigningSecret,
	}, mistakes, err
}

// changedDestination reads what is to change of a destination.
func changedDestination(in *model.DestinationUpdateInput) (controlplane.DestinationInput, []controlplane.UserError, error) {
	policy, mistakes, err := failurePolicy(given(in.FailurePolicy))
	if err != nil {
		return controlplane.DestinationInput{}, nil, err
	}
	credential, err := credential(given(in.Credential))
	return controlplane.DestinationInput{
		RateLimit: given(in.RateLimit), MaxInFlight: given(in.MaxInFlight), FailurePolicy: policy,
		Credential: credential, Certificate: certificate(given(in.ClientCertificate)),
	}, mistakes, err
}

// mistake is one in what the schema lets pass.
func mistake(message string, path ...string) []controlplane.UserError {
	return []controlplane.UserError{{Code: controlplane.Invalid, Message: message, Path: path}}
}

func failurePolicy(g controlplane.Given[model.FailurePolicyInput]) (out controlplane.Given[hub.FailurePolicy], mistakes []controlplane.UserError, err error) {
	out.Set = g.Set
	if g.Value == nil {
		return out, nil, nil
	}
	span, in := g.Value.FailureSpan, g.Value.FailureRate
	if err := oneOf("failurePolicy", "failureSpan and failureRate", span != nil, in != nil); err != nil {
		return out, nil, err
	}
	path := []string{"input", "destination", "failurePolicy"}
	if span != nil && !*span {
		return out, mistake("failureSpan is true; for another policy give that one", append(path, "failureSpan")...), nil
	}
	p := hub.FailurePolicy{Kind: hub.FailureSpan}
	if in != nil {
		p.Kind = hub.FailureRate
		for _, one := range []struct {
			name string
			to   *int64
			from *int64
		}{
			{"percent", &p.Percent, wide(in.Percent)}, {"minAttempts", &p.MinAttempts, in.MinAttempts}, {"disableAfter", &p.DisableRow, in.DisableAfter},
			{"freezeAfter", &p.FreezeRow, in.FreezeAfter}, {"freezeAge", &p.FreezeAgeMillis, millis(in.FreezeAge)},
			{"freezeAtLatest", &p.FreezeAnyRow, in.FreezeAtLatest}, {"tryEvery", &p.TryEveryMillis, millis(in.TryEvery)},
		} {
			if one.from == nil {
				continue
			}
			if *one.to = *one.from; *one.to == 0 { // which is kept for what is absent
				mistakes = append(mistakes, mistake(one.name+" is not 0; leave it out for the preset", slices.Concat(path, []string{"failureRate", one.name})...)...)
			}
		}
	}
	out.Value = &p
	return out, mistakes, nil
}

func wide(n *int32) *int64 {
	if n == nil {
		return nil
	}
	v := int64(*n)
	return &v
}

func millis(d *time.Duration) *int64 {
	if d == nil {
		return nil
	}
	v := d.Milliseconds()
	return &v
}

func credential(g controlplane.Given[model.CredentialInput]) (controlplane.Given[controlplane.NewCredential], error) {
	out := controlplane.Given[controlplane.NewCredential]{Set: g.Set}
	in := g.Value
	if in == nil {
		return out, nil
	}
	if err := oneOf("credential", "bearer, basic and header", in.Bearer != nil, in.Basic != nil, in.Header != nil); err != nil {
		return out, err
	}
	c := controlplane.NewCredential{}
	switch {
	case in.Bearer != nil:
		c.Kind, c.Secret = hub.CredentialBearer, secret.New([]byte(in.Bearer.Token))
	case in.Basic != nil:
		c.Kind, c.Name, c.Secret = hub.CredentialBasic, in.Basic.Username, secret.New([]byte(in.Basic.Password))
	default:
		c.Kind, c.Name, c.Secret = hub.CredentialHeader, in.Header.Name, secret.New([]byte(in.Header.Value))
	}
	out.Value = &c
	return out, nil
}

func certificate(g controlplane.Given[model.ClientCertificateInput]) controlplane.Given[controlplane.NewCredential] {
	out := controlplane.Given[controlplane.NewCredential]{Set: g.Set}
	if in := g.Value; in != nil {
		out.Value = &controlplane.NewCredential{
			Credential: hub.Credential{Kind: hub.CredentialCertificate, Certificate: in.Chain}, Secret: secret.New([]byte(in.PrivateKey)),
		}
	}
	return out
}

// oneOf holds for variables what @oneOf says; for literals the validator has
// seen to it.
func oneOf(name, fields string, given ...bool) error {
	n := 0
	for _, one := range given {
		if one {
			n++
		}
	}
	if n != 1 {
		return apiErrorf(codeBadInput, "%s takes exactly one of %s", name, fields)
	}
	return nil
}
