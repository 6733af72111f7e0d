package graph

import (
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
func newDestination(in *model.DestinationInput) (controlplane.DestinationInput, error) {
	policy, err := failurePolicy(orAbsent(in.FailurePolicy))
	if err != nil {
		return controlplane.DestinationInput{}, err
	}
	credential, err := credential(orAbsent(in.Credential))
	return controlplane.DestinationInput{
		RateLimit: orAbsent(in.RateLimit), MaxInFlight: orAbsent(in.MaxInFlight), FailurePolicy: policy,
		Credential: credential, Certificate: certificate(orAbsent(in.ClientCertificate)), SigningSecret: in.SigningSecret,
	}, err
}

// changedDestination reads what is to change of a destination.
func changedDestination(in *model.DestinationUpdateInput) (controlplane.DestinationInput, error) {
	policy, err := failurePolicy(given(in.FailurePolicy))
	if err != nil {
		return controlplane.DestinationInput{}, err
	}
	credential, err := credential(given(in.Credential))
	return controlplane.DestinationInput{
		RateLimit: given(in.RateLimit), MaxInFlight: given(in.MaxInFlight), FailurePolicy: policy,
		Credential: credential, Certificate: certificate(given(in.ClientCertificate)),
	}, err
}

func failurePolicy(g controlplane.Given[model.FailurePolicyInput]) (controlplane.Given[hub.FailurePolicy], error) {
	out := controlplane.Given[hub.FailurePolicy]{Set: g.Set}
	if g.Value == nil {
		return out, nil
	}
	if err := oneOf("failurePolicy", "failureSpan and failureRate", g.Value.FailureSpan != nil, g.Value.FailureRate != nil); err != nil {
		return out, err
	}
	p := hub.FailurePolicy{Kind: hub.FailureSpan}
	if in := g.Value.FailureRate; in != nil {
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
				return out, apiErrorf(codeBadInput, "failureRate.%s is 0; leave it out for the preset", one.name)
			}
		}
	}
	out.Value = &p
	return out, nil
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
