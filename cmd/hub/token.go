package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/streaming-hub/streaming-hub/access"
	"github.com/streaming-hub/streaming-hub/controlplane"
	"github.com/streaming-hub/streaming-hub/db"
	"github.com/streaming-hub/streaming-hub/hub"
)

type tokenCommand struct {
	PostgresDSN string `help:"Postgres; otherwise STREAMING_HUB_POSTGRES_DSN."`

	Create tokenCreate `cmd:"" help:"Make an API token and show it, once."`
	List   tokenList   `cmd:"" help:"List API tokens, the newest first; the tokens themselves are not kept."`
	Revoke tokenRevoke `cmd:"" help:"End an API token; it stops working within seconds."`
}

// open connects to the database that the command means.
func (c *tokenCommand) open(ctx context.Context) (*db.DB, error) {
	dsn, err := dsnOr(c.PostgresDSN)
	if err != nil {
		return nil, err
	}
	return db.Open(ctx, db.Config{DSN: dsn, Name: "hub token"})
}

type tokenCreate struct {
	Name     string        `required:"" help:"A name for people."`
	Tenant   string        `xor:"scope" required:"" help:"The tenant that it reaches."`
	Platform bool          `xor:"scope" required:"" help:"It reaches all tenants."`
	Role     hub.Role      `enum:"VIEWER,OPERATOR,ADMIN" default:"VIEWER" help:"VIEWER reads, OPERATOR also acts, ADMIN also manages tokens and secrets."`
	Expires  time.Duration `help:"How long it works, such as 720h; for ever when absent."`
}

func (t *tokenCreate) Run(ctx context.Context, c *commands, out io.Writer) error {
	d, err := c.Token.open(ctx)
	if err != nil {
		return err
	}
	defer d.Close()
	text, err := makeToken(ctx, d, hub.TenantID(t.Tenant), t.Name, t.Role, t.Expires)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(out, text)
	return err
}

type tokenList struct {
	Tenant string `help:"Of this tenant only."`
}

func (t *tokenList) Run(ctx context.Context, c *commands, out io.Writer) error {
	d, err := c.Token.open(ctx)
	if err != nil {
		return err
	}
	defer d.Close()
	list, err := d.ListTokens(ctx, hub.TenantID(t.Tenant))
	if err != nil {
		return err
	}
	for _, token := range list {
		scope := or(string(token.Tenant), "(all tenants)")
		if _, err := fmt.Fprintf(out, "%s  %-8s  %-20s  %s  %s\n", token.ID, token.Role, scope, standing(token, time.Now()), token.Name); err != nil {
			return err
		}
	}
	return nil
}

func standing(t hub.APIToken, now time.Time) string {
	switch {
	case !t.RevokedAt.IsZero():
		return "revoked " + t.RevokedAt.UTC().Format(time.DateTime)
	case !t.Good(now):
		return "expired " + t.ExpiresAt.UTC().Format(time.DateTime)
	case !t.ExpiresAt.IsZero():
		return "until " + t.ExpiresAt.UTC().Format(time.DateTime)
	}
	return "good"
}

type tokenRevoke struct {
	ID string `arg:"" help:"The token's id, as token list shows it."`
}

func (t *tokenRevoke) Run(ctx context.Context, c *commands, out io.Writer) error {
	id, err := hub.ParseID(t.ID)
	if err != nil {
		return err
	}
	d, err := c.Token.open(ctx)
	if err != nil {
		return err
	}
	defer d.Close()
	_, mistakes, err := tokensBy(d).Revoke(ctx, byHand, controlplane.GlobalID(controlplane.TokenIDs, id))
	if err := errors.Join(err, told(mistakes)); err != nil {
		return err
	}
	_, err = fmt.Fprintln(out, "Revoked.")
	return err
}

// byHand is who works at the command line, for the audit log: nobody that the
// hub knows, with access to its database.
var byHand = controlplane.Actor{Name: "hub token", Role: hub.Admin}

func tokensBy(d *db.DB) *controlplane.Tokens {
	return &controlplane.Tokens{DB: d, Access: access.NewTokens(d), Now: time.Now, Random: rand.Reader}
}

// told is what is wrong with a command, nil for nothing.
func told(mistakes []controlplane.UserError) error {
	var all []error
	for _, m := range mistakes {
		all = append(all, m)
	}
	return errors.Join(all...)
}

func makeToken(ctx context.Context, d *db.DB, tenant hub.TenantID, name string, role hub.Role, life time.Duration) (string, error) {
	wish := controlplane.TokenWish{Tenant: string(tenant), Platform: tenant == "", Name: name, Role: role}
	if life != 0 {
		wish.ExpiresIn = &life
	}
	text, _, mistakes, err := tokensBy(d).Create(ctx, byHand, wish)
	return text, errors.Join(err, told(mistakes))
}
