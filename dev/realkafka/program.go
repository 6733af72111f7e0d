package realkafka

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/streaming-hub/streaming-hub/dev/leash"
)

const (
	// startTimeout is generous: a broker starts in 3 s on an idle machine.
	startTimeout = time.Minute
	stopTimeout  = 20 * time.Second
)

// javaFlags keep a broker small and quick to start.
var javaFlags = [...]string{"-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"}

// program is a broker that runs as a child of ours.
type program struct {
	cmd   *exec.Cmd
	ended chan struct{} // closed when it has ended
	leash *leash.Leash
}

func startProgram(ctx context.Context, files programFiles, o Options) (*Kafka, error) {
	root, err := os.MkdirTemp("", "hub-real-kafka-")
	if err != nil {
		return nil, fmt.Errorf("make a folder for Kafka: %w", err)
	}
	k, err := startIn(ctx, root, files, o)
	if err != nil {
		os.RemoveAll(root)
		return nil, err
	}
	return k, nil
}

func startIn(ctx context.Context, root string, files programFiles, o Options) (*Kafka, error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	p, err := freePorts()
	if err != nil {
		return nil, err
	}
	if err := writeCertificate(root, time.Now()); err != nil {
		return nil, err
	}
	config := filepath.Join(root, "server.properties")
	if err := os.WriteFile(config, []byte(text(properties(root, p, o))), 0o600); err != nil {
		return nil, fmt.Errorf("write Kafka's settings: %w", err)
	}
	classes := filepath.Join(files.libs, "*")
	format := exec.CommandContext(ctx, files.java, append(javaFlags[:], "-cp", classes, "kafka.tools.StorageTool",
		"format", "--standalone", "--cluster-id", clusterID(), "--config", config)...)
	if out, err := format.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("format Kafka's storage: %w: %s", err, fault(out))
	}
	k := &Kafka{
		Origin: "Kafka from " + files.libs,
		plain:  fmt.Sprintf("127.0.0.1:%d", p.plain), login: fmt.Sprintf("127.0.0.1:%d", p.login), tls: fmt.Sprintf("127.0.0.1:%d", p.tls),
		caFile: filepath.Join(root, caFile),
	}
	child, err := launch(root, files.java, append(javaFlags[:], "-cp", classes, "kafka.Kafka", config)...)
	if err != nil {
		return nil, err
	}
	k.stop = child.stop
	err = k.awaitAnswer(ctx, child.ended)
	if err == nil {
		err = k.addUsers(ctx, o.Users)
	}
	if err != nil {
		log, _ := os.ReadFile(filepath.Join(root, logFile))
		return nil, errors.Join(fmt.Errorf("start Kafka: %w: %s", err, fault(log)), k.Close())
	}
	return k, nil
}

const logFile = "kafka.log"

// launch runs a broker whose end, however it comes, also ends root.
func launch(root, java string, args ...string) (*program, error) {
	log, err := os.Create(filepath.Join(root, logFile))
	if err != nil {
		return nil, fmt.Errorf("open Kafka's log: %w", err)
	}
	defer log.Close()
	p := &program{cmd: exec.Command(java, args...), ended: make(chan struct{})}
	p.cmd.Dir = root
	p.cmd.Stdout, p.cmd.Stderr = log, log
	// Ctrl-C in a terminal is for us; we then stop it in our order.
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start Kafka: %w", err)
	}
	go func() {
		_ = p.cmd.Wait() // "exit status 143" is the answer to SIGTERM
		close(p.ended)
	}()
	if p.leash, err = leash.Tie(p.cmd.Process.Pid, syscall.SIGTERM, root); err != nil {
		_ = p.cmd.Process.Kill() // it may have ended just now
		<-p.ended
		return nil, err
	}
	return p, nil
}

// stop asks it to end in order, and kills it when that takes too long. Then
// its folder is removed.
func (p *program) stop() error {
	err := p.cmd.Process.Signal(syscall.SIGTERM)
	if err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stop Kafka (pid %d): %w", p.cmd.Process.Pid, err)
	}
	select {
	case <-p.ended:
	case <-time.After(stopTimeout):
		_ = p.cmd.Process.Kill() // it may have ended just now
		<-p.ended
	}
	p.leash.Remove()
	return nil
}

// clusterID is a random UUID in Kafka's spelling.
func clusterID() string {
	var id [16]byte
	rand.Read(id[:])
	id[0] &= 0x7f // a leading '-' would be read as a flag
	return base64.RawURLEncoding.EncodeToString(id[:])
}

// freePorts draws them all before it lets go of one, so that they differ.
func freePorts() (p ports, err error) {
	for _, port := range []*int{&p.plain, &p.login, &p.tls, &p.controller} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return p, fmt.Errorf("find a free port: %w", err)
		}
		defer l.Close()
		*port = l.Addr().(*net.TCPAddr).Port
	}
	return p, nil
}

// fault is the line of a log that tells best what went wrong: the first that
// names an error, else the last.
func fault(log []byte) string {
	lines := strings.Split(string(bytes.TrimSpace(log)), "\n")
	for _, line := range lines {
		if strings.Contains(line, "Exception") || strings.Contains(line, "ERROR") {
			return strings.TrimSpace(line)
		}
	}
	return lines[len(lines)-1]
}
