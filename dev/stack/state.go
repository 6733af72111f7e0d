package stack

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// State is what dev.json says: where a person or a program reaches the parts.
type State struct {
	GraphQLURL    string `json:"graphqlUrl"`
	GraphQLWSURL  string `json:"graphqlWsUrl"`
	ConsoleURL    string `json:"consoleUrl"`
	PullURL       string `json:"pullUrl"`
	PlatformToken string `json:"platformToken"`
	TenantToken   string `json:"tenantToken"`
	TenantID      string `json:"tenantId"`
	KafkaBrokers  string `json:"kafkaBrokers"`
	PostgresDSN   string `json:"postgresDsn"`
	ReceiverURL   string `json:"receiverUrl"`
}

const (
	stateFile = "dev.json"
	// lastFile keeps the state while dev.json, which stands for a hub that is
	// ready, is not there.
	lastFile    = "dev.last.json"
	secretsFile = "receiver-secrets.json"
)

// lastState reads the state of the last run, zero when there is none.
func lastState(dir string) (s State, err error) {
	if err := putAside(dir); err != nil { // left behind by a run that was killed
		return s, err
	}
	return s, readJSON(filepath.Join(dir, lastFile), &s)
}

// putAside takes dev.json away and keeps what it says for the next run.
func putAside(dir string) error {
	err := os.Rename(filepath.Join(dir, stateFile), filepath.Join(dir, lastFile))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("put the last run's state aside: %w", err)
	}
	return nil
}

// save writes dev.json, which holds tokens and is for its owner's eyes only.
func (s State) save(dir string) error {
	if err := writeJSON(filepath.Join(dir, stateFile), s); err != nil {
		return err
	}
	if err := os.Remove(filepath.Join(dir, lastFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove the last run's state: %w", err)
	}
	return nil
}

// readJSON leaves v alone when there is no file.
func readJSON(path string, v any) error {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the development state: %w", err)
	}
	if err := json.Unmarshal(text, v); err != nil {
		return fmt.Errorf("read %s (remove it to begin anew): %w", path, err)
	}
	return nil
}

// writeJSON replaces a file in one step, readable by its owner only.
func writeJSON(path string, v any) error {
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	draft := path + ".new"
	if err := os.WriteFile(draft, append(text, '\n'), 0o600); err != nil {
		return fmt.Errorf("write the development state: %w", err)
	}
	if err := os.Rename(draft, path); err != nil {
		return fmt.Errorf("write the development state: %w", err)
	}
	return nil
}

// ensureKEK makes the key that encrypts the signing secrets, once.
func ensureKEK(path string) error {
	if _, err := os.Stat(path); err == nil {
		return nil
	}
	key := make([]byte, 32)
	_, _ = rand.Read(key) // never fails
	if err := os.WriteFile(path, []byte("dev:"+base64.StdEncoding.EncodeToString(key)+"\n"), 0o600); err != nil {
		return fmt.Errorf("keep the key-encryption key: %w", err)
	}
	return nil
}

func (s *Stack) lastFile() string { return filepath.Join(s.o.StateDir, lastFile) }
