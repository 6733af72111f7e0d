package realkafka

import (
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

const (
	// minJava is the oldest Java that brokers of Kafka 4 run on.
	minJava = 17
	// resolveTimeout bounds Maven, which loads some 45 MiB for the first time.
	resolveTimeout = 2 * time.Minute
	// The broker logs through slf4j 1.7 and says nothing without a binding.
	slf4jVersion = "1.7.36"
	copyGoal     = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies"
)

// programFiles are a Java and the folder of Kafka's jars.
type programFiles struct {
	java string
	libs string
}

// findLibs looks for Kafka's jars, and has Maven fetch them when there are
// none.
func findLibs(ctx context.Context) (programFiles, error) {
	java, err := findJava(ctx)
	if err != nil {
		return programFiles{}, err
	}
	if dir := os.Getenv(DirEnv); dir != "" {
		libs := filepath.Join(dir, "libs")
		if !hasBroker(libs) {
			return programFiles{}, fmt.Errorf("%s=%s: there is no Kafka in its folder libs", DirEnv, dir)
		}
		return programFiles{java, libs}, nil
	}
	dir, err := cacheDir()
	if err != nil {
		return programFiles{}, err
	}
	libs := filepath.Join(dir, "libs")
	if hasBroker(libs) {
		return programFiles{java, libs}, nil
	}
	if err := resolve(ctx, dir); err != nil {
		return programFiles{}, err
	}
	return programFiles{java, libs}, nil
}

func hasBroker(libs string) bool {
	jars, _ := filepath.Glob(filepath.Join(libs, "kafka_2.*.jar")) // the pattern is well-formed
	return len(jars) > 0
}

func cacheDir() (string, error) {
	base, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find a folder to keep Kafka in: %w", err)
	}
	return filepath.Join(base, "streaming-hub", "kafka-"+Version), nil
}

var javaVersion = regexp.MustCompile(`version "(\d+)`)

func findJava(ctx context.Context) (string, error) {
	java, err := exec.LookPath("java")
	if home := os.Getenv("JAVA_HOME"); home != "" {
		java, err = exec.LookPath(filepath.Join(home, "bin", "java"))
	}
	if err != nil {
		return "", missing("there is no java, which a broker runs on")
	}
	out, err := exec.CommandContext(ctx, java, "-version").CombinedOutput()
	found := javaVersion.FindSubmatch(out)
	if err != nil || found == nil {
		return "", missingf("%s does not tell its version", java)
	}
	if major, _ := strconv.Atoi(string(found[1])); major < minJava { // digits
		return "", missingf("a broker needs Java %d or newer and %s is %s", minJava, java, found[1])
	}
	return java, nil
}

// resolve has Maven fetch Kafka and what it needs at run time into dir/libs.
// The folder appears whole or not at all, however this ends.
func resolve(ctx context.Context, dir string) error {
	mvn, err := exec.LookPath("mvn")
	if err != nil {
		return missing("Maven (mvn) is not installed")
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("make a folder to keep Kafka in: %w", err)
	}
	work, err := os.MkdirTemp(dir, "resolving-")
	if err != nil {
		return fmt.Errorf("make a folder for Maven: %w", err)
	}
	defer os.RemoveAll(work)
	pom, err := xml.Marshal(kafkaPOM())
	if err != nil {
		return fmt.Errorf("write Maven's project: %w", err)
	}
	if err := os.WriteFile(filepath.Join(work, "pom.xml"), pom, 0o644); err != nil {
		return fmt.Errorf("write Maven's project: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, resolveTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, mvn, "-B", "-q", copyGoal, "-DincludeScope=runtime", "-DoutputDirectory="+filepath.Join(work, "libs"))
	cmd.Dir = work
	cmd.WaitDelay = time.Second // mvn is a shell whose child may hold the pipe
	if out, err := cmd.CombinedOutput(); err != nil {
		if ctx.Err() != nil {
			return missingf("Maven did not resolve it within %s", resolveTimeout)
		}
		return missingf("Maven could not resolve it (%s)", firstFault(out))
	}
	err = os.Rename(filepath.Join(work, "libs"), filepath.Join(dir, "libs"))
	if err != nil && !errors.Is(err, fs.ErrExist) && !hasBroker(filepath.Join(dir, "libs")) { // another process may have been first
		return fmt.Errorf("keep Kafka's jars: %w", err)
	}
	return nil
}

// firstFault is the first line of Maven's that tells of an error.
func firstFault(out []byte) string {
	for line := range strings.Lines(string(out)) {
		if _, fault, ok := strings.Cut(line, "ERROR"); ok {
			if fault = strings.Trim(fault, "] \t\r\n\x1b[0m"); fault != "" {
				return fault
			}
		}
	}
	return "it did not say why"
}

type project struct {
	XMLName      xml.Name     `xml:"http://maven.apache.org/POM/4.0.0 project"`
	ModelVersion string       `xml:"modelVersion"`
	Group        string       `xml:"groupId"`
	Artifact     string       `xml:"artifactId"`
	Version      string       `xml:"version"`
	Packaging    string       `xml:"packaging"`
	Dependencies []dependency `xml:"dependencies>dependency"`
}

type dependency struct {
	Group    string `xml:"groupId"`
	Artifact string `xml:"artifactId"`
	Version  string `xml:"version"`
}

func kafkaPOM() project {
	return project{
		ModelVersion: "4.0.0", Group: "streaming-hub", Artifact: "kafka-for-tests", Version: "1", Packaging: "pom",
		Dependencies: []dependency{
			{"org.apache.kafka", "kafka_2.13", Version},
			{"org.slf4j", "slf4j-simple", slf4jVersion},
		},
	}
}
