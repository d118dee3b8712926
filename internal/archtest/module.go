package archtest

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// StandsAlone checks that the packages below a directory, tests included, can be a module without
// requirements, with the given go directive: it copies them, except those below the directories except, and
// vets the copy.
func StandsAlone(t *Tree, dir, goVersion string, except ...string) (_ []Finding, err error) {
	tmp, err := os.MkdirTemp("", "module")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(tmp)) }()
	files := map[string][]byte{"go.mod": fmt.Appendf(nil, "module %s/%s\n\ngo %s\n", t.Module, dir, goVersion)}
	for _, name := range t.Files {
		rel, ok := strings.CutPrefix(name, dir+"/")
		if !ok || slices.ContainsFunc(except, func(d string) bool { return within(rel, d) }) {
			continue
		}
		if files[rel], err = t.read(name); err != nil {
			return nil, err
		}
	}
	for name, text := range files {
		path := filepath.Join(tmp, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return nil, err
		}
		if err := os.WriteFile(path, text, 0o644); err != nil {
			return nil, err
		}
	}
	vet := exec.Command("go", "vet", "./...")
	vet.Dir = tmp
	vet.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=readonly -trimpath", "GOPROXY=off") // without the directory's name, builds are cached
	if out, err := vet.CombinedOutput(); err != nil {
		return []Finding{{
			dir, fmt.Sprintf("go vet fails outside of this module: %v\n%s", err, bytes.TrimSpace(out)),
			"import the standard library and packages of this directory alone",
		}}, nil
	}
	return nil, nil
}
