package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// thanosModule is the module to compare with.
const thanosModule = "github.com/thanos-io/thanos@v0.41.0"

// thanosTest is the file that the variants change.
const thanosTest = "pkg/store/bucket_test.go"

// An edit replaces a text that occurs in the file exactly once.
type edit struct{ before, after string }

// A variant is a variant of Thanos' benchmark.
type variant struct {
	name  string // prefix of the benchmark's name
	edits []edit
}

func variants() []variant {
	named := edit{
		"promauto.NewHistogramVec(prometheus.HistogramOpts{}, []string{tenancy.MetricLabel})",
		`promauto.With(nil).NewHistogramVec(prometheus.HistogramOpts{Name: "test"}, []string{tenancy.MetricLabel})`,
	}
	closed := []edit{
		{"defer blockClient.Close()\n\n\t\t\t\t// Ensure at least 1 series", "// Ensure at least 1 series"},
		{"_, err = blockClient.Recv()\n\t\t\t\ttestutil.Ok(b, err)\n\t\t\t}\n\t\t}()", "_, err = blockClient.Recv()\n\t\t\t\ttestutil.Ok(b, err)\n\t\t\t\tblockClient.Close()\n\t\t\t}\n\t\t}()"},
	}
	return []variant{{"Thanos", []edit{named}}, {"ThanosClosed", append(closed, named)}}
}

func main() {
	count := flag.Int("count", 3, "runs of each, for benchstat")
	benchtime := flag.String("benchtime", "320x", "as go test takes it; a multiple of 20 times the concurrency gives each matcher its share")
	concurrency := flag.Int("concurrency", 0, "only this one; 0 for all: 1, 2, 4, 8, 16 and 32")
	flag.Parse()
	if flag.NArg() > 0 {
		fmt.Fprintln(os.Stderr, "blockseries: takes no arguments")
		os.Exit(64)
	}
	if err := run(*count, *benchtime, *concurrency, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "blockseries:", err)
		os.Exit(1)
	}
}

func run(count int, benchtime string, concurrency int, out io.Writer) (err error) {
	thanos, err := moduleDir(thanosModule)
	if err != nil {
		return err
	}
	tmp, err := os.MkdirTemp("", "blockseries-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(tmp)) }()
	tare, err := output("", "go", "list", "-f", "{{.Dir}}", "-m", "github.com/taredb/tare")
	if err != nil {
		return err
	}
	pattern := "^BenchmarkBlockSeries$"
	if concurrency > 0 {
		pattern += "/^concurrency:_" + strconv.Itoa(concurrency) + "(,|$)"
	}
	flags := []string{"-test.run=^$", "-test.bench=" + pattern, "-test.benchmem", "-test.benchtime=" + benchtime, "-test.timeout=0"}

	// Build all before running any, and alternate the runs, so that all of them have the same conditions.
	type subject struct{ name, binary, dir string }
	var subjects []subject
	copied := filepath.Join(tmp, "thanos")
	if err := os.CopyFS(copied, os.DirFS(thanos)); err != nil {
		return fmt.Errorf("copy %s: %w", thanosModule, err)
	}
	original, err := os.ReadFile(filepath.Join(thanos, filepath.FromSlash(thanosTest)))
	if err != nil {
		return err
	}
	for _, v := range variants() {
		changed, err := v.apply(string(original))
		if err != nil {
			return fmt.Errorf("%s: %w", v.name, err)
		}
		if err := os.WriteFile(filepath.Join(copied, filepath.FromSlash(thanosTest)), []byte(changed), 0o644); err != nil {
			return err
		}
		s := subject{v.name, filepath.Join(tmp, v.name+".test"), filepath.Join(copied, "pkg", "store")}
		if _, err := output(copied, "go", "test", "-c", "-o", s.binary, "./pkg/store"); err != nil {
			return fmt.Errorf("build %s: %w", v.name, err)
		}
		subjects = append(subjects, s)
	}
	s := subject{"Tare", filepath.Join(tmp, "tare.test"), filepath.Join(strings.TrimSpace(tare), "store", "storegateway")}
	if _, err := output(strings.TrimSpace(tare), "go", "test", "-c", "-o", s.binary, "./store/storegateway"); err != nil {
		return fmt.Errorf("build ours: %w", err)
	}
	subjects = append(subjects, s)
	for range count {
		for _, s := range subjects {
			text, err := output(s.dir, s.binary, flags...)
			if err != nil {
				return fmt.Errorf("run %s: %w", s.name, err)
			}
			if err := writeLines(out, s.name, text); err != nil {
				return fmt.Errorf("run %s: %w", s.name, err)
			}
		}
	}
	return nil
}

// moduleDir downloads a module, if needed, and returns its directory.
func moduleDir(module string) (string, error) {
	text, err := output("", "go", "mod", "download", "-json", module)
	if err != nil {
		return "", fmt.Errorf("download %s: %w", module, err)
	}
	var m struct{ Dir string }
	if err := json.Unmarshal([]byte(text), &m); err != nil {
		return "", fmt.Errorf("download %s: %w", module, err)
	}
	return m.Dir, nil
}

// apply applies the edits.
func (v variant) apply(text string) (string, error) {
	for _, e := range v.edits {
		if n := strings.Count(text, e.before); n != 1 {
			return "", fmt.Errorf("%q is in %s %d times, want it once: the version is not the one that is known", e.before, thanosTest, n)
		}
		text = strings.Replace(text, e.before, e.after, 1)
	}
	return text, nil
}

// writeLines copies the benchmark lines of a run under the subject's name. Lines of Thanos do not mention
// sharding, which it does not have.
func writeLines(out io.Writer, subject, text string) error {
	found := false
	for line := range strings.Lines(text) {
		rest, ok := strings.CutPrefix(line, "BenchmarkBlockSeries/")
		if !ok {
			continue
		}
		found = true
		if _, err := fmt.Fprintf(out, "BenchmarkBlockSeries/subject=%s/%s", subject, rest); err != nil {
			return err
		}
	}
	if !found {
		return fmt.Errorf("no benchmark ran:\n%s", text)
	}
	return nil
}

// output runs a command in a directory and returns what it writes to standard output.
func output(dir, name string, args ...string) (string, error) {
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOWORK=off")
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s: %w\n%s%s", cmd, err, stdout.Bytes(), stderr.Bytes())
	}
	return stdout.String(), nil
}
