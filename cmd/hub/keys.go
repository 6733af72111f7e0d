package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"

	"github.com/streaming-hub/streaming-hub/controlplane"
	"github.com/streaming-hub/streaming-hub/db"
	"github.com/streaming-hub/streaming-hub/hub/secret"
)

type keysCommand struct {
	PostgresDSN string `help:"Postgres; otherwise STREAMING_HUB_POSTGRES_DSN."`

	Status keysStatus `cmd:"" help:"Count what each key-encryption key wraps; exit code 1 when one is missing."`
	Rewrap keysRewrap `cmd:"" help:"Move every secret to the first key-encryption key, beside planes that run. It can be stopped and run again."`
}

// open connects to the database and reads the keys of STREAMING_HUB_KEK_KEYS.
func (c *keysCommand) open(ctx context.Context) (*db.DB, *secret.Keyring, error) {
	s, err := load()
	if err != nil {
		return nil, nil, err
	}
	keys, err := secret.ParseKeyring(string(s.KEKKeys.Reveal()))
	if err != nil {
		return nil, nil, fmt.Errorf("STREAMING_HUB_KEK_KEYS: %w", err)
	}
	dsn, err := dsnOr(c.PostgresDSN)
	if err != nil {
		return nil, nil, err
	}
	d, err := db.Open(ctx, db.Config{DSN: dsn, Name: "hub keys"})
	return d, keys, err
}

type keysStatus struct{}

func (keysStatus) Run(ctx context.Context, c *commands, out io.Writer) error {
	d, keys, err := c.Keys.open(ctx)
	if err != nil {
		return err
	}
	defer d.Close()
	return keyStatus(ctx, d, keys, out)
}

func keyStatus(ctx context.Context, d *db.DB, keys *secret.Keyring, out io.Writer) error {
	used, err := d.KeyUse(ctx)
	if err != nil {
		return err
	}
	ids := keys.KeyIDs()
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "KEY\tSIGNING SECRETS\tCREDENTIALS\t")
	for i, id := range ids {
		what := "opens"
		if i == 0 {
			what = "encrypts and opens"
		}
		var n db.KeyUse
		if j := slices.IndexFunc(used, func(u db.KeyUse) bool { return u.KeyID == id }); j >= 0 {
			n = used[j]
		}
		fmt.Fprintf(table, "%s\t%d\t%d\t%s\n", id, n.SigningSecrets, n.Credentials, what)
	}
	missing := 0
	for _, u := range used {
		if !slices.Contains(ids, u.KeyID) {
			missing++
			fmt.Fprintf(table, "%s\t%d\t%d\tnot configured: nothing opens these\n", u.KeyID, u.SigningSecrets, u.Credentials)
		}
	}
	if err := table.Flush(); err != nil {
		return err
	}
	if missing > 0 {
		return fmt.Errorf("%d keys are in use and not in STREAMING_HUB_KEK_KEYS", missing)
	}
	return nil
}

type keysRewrap struct {
	Batch int `default:"200" help:"Secrets moved by one statement."`
}

func (r *keysRewrap) Run(ctx context.Context, c *commands, out io.Writer) error {
	d, keys, err := c.Keys.open(ctx)
	if err != nil {
		return err
	}
	defer d.Close()
	if keys.Empty() {
		return errors.New("which keys? Set STREAMING_HUB_KEK_KEYS, the new one first")
	}
	work := controlplane.Rewrapping{DB: d, Keys: keys, Random: rand.Reader, Batch: r.Batch}
	done, err := work.Run(ctx)
	fmt.Fprintf(out, "%d secrets moved to key %s, %d changed meanwhile, %d that no configured key opens.\n", done.Moved, keys.KeyIDs()[0], done.Changed, done.Unopened)
	if err == nil && done.Unopened > 0 {
		err = fmt.Errorf("%d secrets stay as they are; hub keys status names the missing keys", done.Unopened)
	}
	return err
}
