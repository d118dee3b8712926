package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/taredb/tare/sizegen/internal/gen"
)

// measure compares the walks with the heap: the go command runs a test in each package with roots. The
// generated files and the test are in a temporary directory and replace those of the packages, which stay
// unchanged.
func measure(cfg gen.Config, stdout, stderr io.Writer) (code int) {
	files, packages, problems, err := gen.Measure(cfg)
	if err != nil {
		fmt.Fprintf(stderr, "sizegen: %v\n", err)
		return exitFailed
	}
	if report(problems, stderr) > 0 {
		return exitFailed
	}
	if len(packages) == 0 {
		fmt.Fprint(stderr, "sizegen: no roots in these packages\nTry: //sizegen:root above a type, or -root path.Type\n")
		return exitFailed
	}
	tmp, err := os.MkdirTemp("", "sizegen")
	if err != nil {
		fmt.Fprintf(stderr, "sizegen: %v\n", err)
		return exitFailed
	}
	defer func() {
		if err := os.RemoveAll(tmp); err != nil {
			fmt.Fprintf(stderr, "sizegen: %v\n", err)
			code = exitFailed
		}
	}()
	overlay, err := writeOverlay(tmp, files)
	if err != nil {
		fmt.Fprintf(stderr, "sizegen: %v\n", err)
		return exitFailed
	}
	args := []string{"test", "-count=1", "-vet=off", "-p=1", "-overlay=" + overlay, "-v", "-run=^" + gen.MeasureTest + "$"}
	if why := gen.Missing(cfg.Dir, heaptestPath); strings.HasPrefix(why, "vendor") {
		args = append(args, "-mod=readonly") // heaptest need not be vendored
	} else if why != "" {
		fmt.Fprintf(stderr, "sizegen: %s\n", why)
		return exitFailed
	}
	test := exec.Command("go", append(args, packages...)...)
	test.Dir = cfg.Dir
	var out bytes.Buffer
	test.Stdout, test.Stderr = &out, &out
	failed := test.Run()
	explained := false
	for lines := bufio.NewScanner(bytes.NewReader(out.Bytes())); lines.Scan(); {
		if line, ok := strings.CutPrefix(lines.Text(), gen.MeasurePrefix); ok {
			fmt.Fprintln(stdout, line)
		}
		if _, line, ok := strings.Cut(lines.Text(), gen.MeasureError); ok {
			fmt.Fprintf(stderr, "sizegen:%s\n", line)
			explained = true
		}
	}
	switch {
	case failed == nil:
		return exitOK
	case !explained:
		fmt.Fprintf(stderr, "sizegen: go test: %v\n%s", failed, out.Bytes())
	}
	return exitFailed
}

// heaptestPath is the package that the measuring tests import.
const heaptestPath = "github.com/taredb/tare/sizegen/heaptest"

// writeOverlay writes the files to dir, and the overlay by which the go command reads them instead of the
// packages' files.
func writeOverlay(dir string, files []gen.File) (path string, err error) {
	replace := make(map[string]string)
	for i, f := range files {
		name := filepath.Join(dir, strconv.Itoa(i)+".go")
		replace[f.Path] = name
		err = errors.Join(err, os.WriteFile(name, f.Data, 0o644))
	}
	list, marshalErr := json.Marshal(map[string]any{"Replace": replace})
	path = filepath.Join(dir, "overlay.json")
	return path, errors.Join(err, marshalErr, os.WriteFile(path, list, 0o644))
}
