package realkafka

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestStart_says_in_one_sentence_that_there_is_none(t *testing.T) {
	empty := t.TempDir()
	t.Setenv("PATH", empty)
	t.Setenv("JAVA_HOME", "")
	t.Setenv("DOCKER_HOST", "unix://"+filepath.Join(empty, "no.sock"))
	t.Setenv(BrokersEnv, "")
	_, err := Start(t.Context(), Options{})
	if !errors.Is(err, ErrNotToBeHad) || !strings.Contains(err.Error(), "no java") || strings.Contains(err.Error(), "\n") {
		t.Errorf("Start = %v", err)
	}
}

func TestFindLibs(t *testing.T) {
	programs := func(t *testing.T, scripts map[string]string) {
		t.Helper()
		dir := t.TempDir()
		for name, script := range scripts {
			if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+script), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		t.Setenv("PATH", dir)
		t.Setenv("JAVA_HOME", "")
		t.Setenv("HOME", dir)
		t.Setenv("XDG_CACHE_HOME", filepath.Join(dir, "cache"))
		t.Setenv(DirEnv, "")
	}
	const java17 = `echo 'openjdk version "17.0.15" 2025-04-15' >&2`
	for name, c := range map[string]struct {
		scripts map[string]string
		say     string
	}{
		"java_is_too_old":        {map[string]string{"java": `echo 'java version "1.8.0_202"' >&2`}, "needs Java 17"},
		"java_is_broken":         {map[string]string{"java": `exit 1`}, "does not tell its version"},
		"maven_is_missing":       {map[string]string{"java": java17}, "Maven (mvn) is not installed"},
		"maven_resolves_nothing": {map[string]string{"java": java17, "mvn": "echo '[ERROR] no such artifact'\nexit 1"}, "(no such artifact)"},
	} {
		t.Run(name, func(t *testing.T) {
			programs(t, c.scripts)
			_, err := findLibs(t.Context())
			if !errors.Is(err, ErrNotToBeHad) || !strings.Contains(err.Error(), c.say) {
				t.Errorf("findLibs = %v, want %q in it", err, c.say)
			}
		})
	}
	t.Run("maven_leaves_the_jars_for_the_next_run", func(t *testing.T) {
		programs(t, map[string]string{"java": java17, "mvn": `
for a in "$@"; do case $a in -DoutputDirectory=*) out=${a#*=};; esac; done
[ -f pom.xml ] && /bin/mkdir -p "$out" && : > "$out/kafka_2.13-` + Version + `.jar"
`})
		first, err := findLibs(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Remove(filepath.Join(os.Getenv("PATH"), "mvn")); err != nil {
			t.Fatal(err)
		}
		second, err := findLibs(t.Context())
		if err != nil || second != first {
			t.Errorf("the second time: %+v, %v; the first: %+v", second, err, first)
		}
		left, _ := os.ReadDir(filepath.Dir(first.libs))
		if len(left) != 1 {
			t.Errorf("left behind: %v", left)
		}
	})
	t.Run("a_named_folder_without_kafka_is_a_mistake_of_the_caller", func(t *testing.T) {
		programs(t, map[string]string{"java": java17})
		t.Setenv(DirEnv, t.TempDir())
		if _, err := findLibs(t.Context()); err == nil || errors.Is(err, ErrNotToBeHad) || !strings.Contains(err.Error(), DirEnv) {
			t.Errorf("findLibs = %v", err)
		}
	})
}

func TestProperties_of_the_caller_outrank_ours(t *testing.T) {
	set := text(properties("/r", ports{1, 2, 3, 4}, Options{Settings: map[string]string{"min.insync.replicas": "2", "a": "b"}}))
	for _, line := range []string{"a=b\n", "min.insync.replicas=2\n", "log.dirs=/r/data\n", "127.0.0.1:4\n"} {
		if !strings.Contains(set, line) {
			t.Errorf("%q is missing in\n%s", line, set)
		}
	}
}

func TestNamed_brokers_must_answer(t *testing.T) {
	t.Setenv(BrokersEnv, "127.0.0.1:1")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Start(ctx, Options{}); err == nil || errors.Is(err, ErrNotToBeHad) || !strings.Contains(err.Error(), BrokersEnv) {
		t.Errorf("Start = %v", err)
	}
}
