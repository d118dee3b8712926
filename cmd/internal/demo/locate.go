package demo

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
)

// engineBinary is the program with the engine and the workload.
const engineBinary = "tare-demo"

// locateEngine finds tare-demo: beside the running program, otherwise in PATH.
func locateEngine(tare string) (string, error) {
	beside := filepath.Join(filepath.Dir(tare), engineBinary)
	info, err := os.Stat(beside)
	switch {
	case err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o111 != 0:
		return beside, nil
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return "", fmt.Errorf("look for %s: %w", engineBinary, err)
	}
	if path, err := exec.LookPath(engineBinary); err == nil {
		return path, nil
	}
	return "", fmt.Errorf(`the demo's engine, %[1]s, is neither beside %[2]s nor in PATH; build it with
  make build                                                       in Tare's source tree, or
  go build -o %[3]s github.com/taredb/tare/cmd/%[1]s`, engineBinary, tare, beside)
}
