package main

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

func main() {
	only := flag.String("only", "", "measure this subject alone")
	bytes := flag.Float64("bytes", 10e6, "heap bytes of values for each subject")
	flag.Parse()
	if err := run(*only, int64(*bytes)); err != nil {
		fmt.Fprintln(os.Stderr, "sizers:", err)
		os.Exit(1)
	}
}

func run(only string, bytes int64) error {
	tmp, err := os.MkdirTemp("", "sizers")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp) //nolint:errcheck // a temporary directory
	sizegen := filepath.Join(tmp, "sizegen")
	if out, err := exec.Command("go", "build", "-o", sizegen, "github.com/taredb/tare/sizegen").CombinedOutput(); err != nil {
		return fmt.Errorf("build sizegen: %w\n%s", err, out)
	}
	fmt.Println("| subject | directives | values | accounted | heap | off | generated in | a node | by theine | by reflection | by Vitess |")
	fmt.Println("|---|---|---|---|---|---|---|---|---|---|---|")
	for _, s := range subjects() {
		if only != "" && only != s.dir {
			continue
		}
		lines, err := directives(s.dir)
		if err != nil {
			return err
		}
		took, err := generation(sizegen, s.dir)
		if err != nil {
			return err
		}
		r, err := s.measure(bytes)
		if err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		fmt.Printf("| %s | %d | %d | %.2f MB | %.2f MB | %+.2f %% | %.1f s | %.0f ns | %s | %s | %s |\n", s.name, lines, r.values,
			float64(r.accounted)/1e6, float64(r.heap)/1e6, percent(r.accounted, r.heap), took.Seconds(), r.node,
			off(r.byTheine, r.theineHeap), off(r.byReflection, r.heap), off(r.byOwn, r.heap))
	}
	return nil
}

func percent(n, of int64) float64 { return 100 * float64(n-of) / float64(of) }

// off formats the error of a sizer, or a dash if it cannot size the values.
func off(n, heap int64) string {
	if n == 0 {
		return "–"
	}
	return fmt.Sprintf("%+.0f %%", percent(n, heap))
}

// directives counts the lines of directives in a subject's package.
func directives(dir string) (int, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return 0, err
	}
	n := 0
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			return 0, err
		}
		for line := range strings.Lines(string(text)) {
			if strings.HasPrefix(strings.TrimSpace(line), "//sizegen:") {
				n++
			}
		}
	}
	return n, nil
}

// generation returns the median CPU time of three runs of sizegen with its go list. It fails if the generated
// files are stale, and if the recipe causes warnings.
func generation(sizegen, dir string) (time.Duration, error) {
	var times []time.Duration
	for range 3 {
		cmd := exec.Command(sizegen, "-verify", ".")
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		if err != nil {
			return 0, fmt.Errorf("sizegen -verify in %s: %w\n%s", dir, err, out)
		}
		if len(out) > 0 {
			return 0, fmt.Errorf("sizegen warns in %s:\n%s", dir, out)
		}
		times = append(times, cmd.ProcessState.UserTime()+cmd.ProcessState.SystemTime())
	}
	slices.Sort(times)
	return times[len(times)/2], nil
}
