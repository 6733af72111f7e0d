package main

import (
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"time"
)

// clockTick is the unit of /proc's CPU times: 100 per second on Linux.
const clockTick = 10 * time.Millisecond

// procStat is what /proc says of one process.
type procStat struct {
	pid, parent int
	own, waited time.Duration // CPU of itself, and of children that ended
}

func readStat(pid int) (procStat, error) {
	raw, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return procStat{}, err
	}
	text := string(raw)
	// The name stands in brackets and may hold anything.
	fields := strings.Fields(text[strings.LastIndexByte(text, ')')+1:])
	if len(fields) < 15 {
		return procStat{}, fmt.Errorf("/proc/%d/stat is too short", pid)
	}
	n := func(i int) int { v, _ := strconv.Atoi(fields[i]); return v }
	ticks := func(i int) time.Duration { return time.Duration(n(i)) * clockTick }
	return procStat{pid: pid, parent: n(1), own: ticks(11) + ticks(12), waited: ticks(13) + ticks(14)}, nil
}

// cpuOf is the CPU time of a process with all its children, alive and ended.
func cpuOf(pid int) time.Duration {
	root, err := readStat(pid)
	if err != nil {
		return 0
	}
	total := root.own + root.waited
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		child, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if s, err := readStat(child); err == nil && s.parent == pid {
			total += s.own + s.waited
		}
	}
	return total
}

// rssMiB is the resident memory of a process now.
func rssMiB(pid int) float64 {
	raw, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "status"))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(raw)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kib, _ := strconv.ParseFloat(strings.Fields(rest)[0], 64)
			return kib / 1024
		}
	}
	return 0
}

// cpuMeter splits CPU time by process between two moments.
type cpuMeter struct {
	pids  map[string]int
	begun map[string]time.Duration
}

func startMeter(pids map[string]int) cpuMeter {
	m := cpuMeter{pids: pids, begun: map[string]time.Duration{}}
	for name, pid := range pids {
		m.begun[name] = cpuOf(pid)
	}
	return m
}

// spent is the CPU time of each process since the start.
func (m cpuMeter) spent() map[string]time.Duration {
	spent := map[string]time.Duration{}
	for name, pid := range m.pids {
		spent[name] = cpuOf(pid) - m.begun[name]
	}
	return spent
}

// perEvent sums all but the receiver and shows the split.
func perEvent(spent map[string]time.Duration, events int) (micros float64, split string) {
	names := make([]string, 0, len(spent))
	for name := range spent {
		names = append(names, name)
	}
	sort.Strings(names)
	var parts []string
	for _, name := range names {
		us := float64(spent[name].Microseconds()) / float64(events)
		if name != "receiver" {
			micros += us
		}
		parts = append(parts, fmt.Sprintf("%s %.1f", name, us))
	}
	return micros, strings.Join(parts, ", ")
}
