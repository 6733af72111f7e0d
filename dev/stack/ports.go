package stack

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"syscall"
)

// Ports on 127.0.0.1. nil prefers the last run's port, then the default, then
// the next free one; 0 prefers the last run's port, then takes any free one;
// another number takes exactly it.
type Ports struct {
	// Base, when set, stands for those below that are nil: 0 takes any free
	// ones, another number it and the four after it.
	Base *int

	Console, DataPlane, Receiver, Kafka, Postgres *int
}

type chosenPorts struct {
	console, dataPlane, receiver, kafka, postgres int
}

// nextTries is how far the search for a free port goes beyond the default.
const nextTries = 50

// choosePorts fixes the ports of this run. Those of servers that are not
// started by us stay 0.
func choosePorts(p Ports, last State, postgres, kafka bool) (c chosenPorts, err error) {
	taken := map[int]bool{}
	for i, want := range []struct {
		flag   string
		needed bool
		given  *int
		last   string
		def    int
		out    *int
	}{
		{"--console-port", true, p.Console, last.ConsoleURL, 8080, &c.console},
		{"--data-plane-port", true, p.DataPlane, last.PullURL, 8081, &c.dataPlane},
		{"--receiver-port", true, p.Receiver, last.ReceiverURL, 8082, &c.receiver},
		{"--kafka-port", kafka, p.Kafka, "kafka://" + last.KafkaBrokers, 9092, &c.kafka},
		{"--postgres-port", postgres, p.Postgres, last.PostgresDSN, 5442, &c.postgres},
	} {
		if !want.needed {
			continue
		}
		given := want.given
		if given == nil && p.Base != nil {
			given = new(int)
			if *p.Base != 0 {
				*given = *p.Base + i
			}
		}
		switch {
		case given == nil:
			*want.out, err = preferred(taken, portOf(want.last), want.def)
		case *given == 0:
			*want.out, err = anyFree(taken, portOf(want.last))
		case !free(*given) || taken[*given]:
			err = fmt.Errorf("port %d is taken by another program: end that, or choose another port with %s", *given, want.flag)
		default:
			*want.out = *given
		}
		if err != nil {
			return c, err
		}
		taken[*want.out] = true
	}
	return c, nil
}

// preferred is the first free one of last run's port, the default, and those
// after the default.
func preferred(taken map[int]bool, last, def int) (int, error) {
	if last != 0 && !taken[last] && free(last) {
		return last, nil
	}
	for port := def; port < def+nextTries; port++ {
		if !taken[port] && free(port) {
			return port, nil
		}
	}
	return 0, fmt.Errorf("no port from %d to %d is free", def, def+nextTries-1)
}

// anyFree is last run's port, else any other one.
func anyFree(taken map[int]bool, last int) (int, error) {
	if last != 0 && !taken[last] && free(last) {
		return last, nil
	}
	for {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return 0, fmt.Errorf("find a free port: %w", err)
		}
		port := l.Addr().(*net.TCPAddr).Port
		if err := l.Close(); err != nil {
			return 0, fmt.Errorf("find a free port: %w", err)
		}
		if !taken[port] {
			return port, nil
		}
	}
}

// free reports whether nobody listens on the port, on 127.0.0.1 or on all
// addresses.
func free(port int) bool {
	for _, host := range []string{"127.0.0.1", ""} {
		l, err := net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(port)))
		if errors.Is(err, syscall.EADDRINUSE) || errors.Is(err, syscall.EACCES) {
			return false
		}
		if err == nil {
			l.Close()
		}
	}
	return true
}

// portOf is the port of a URL, 0 when it has none.
func portOf(address string) int {
	u, err := url.Parse(strings.SplitN(address, ",", 2)[0])
	if err != nil {
		return 0
	}
	port, _ := strconv.Atoi(u.Port()) // "" is 0
	return port
}

func local(port int) string { return "127.0.0.1:" + strconv.Itoa(port) }
