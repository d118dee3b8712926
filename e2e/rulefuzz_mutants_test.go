//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/taredb/tare/internal/testseed"
)

var fuzzRulesMutants = flag.Int("fuzzrules.mutants", 1, "how many mutants TestRuleFuzzMutants tries, chosen at random; -1: all")

// TestRuleFuzzMutants checks that the fuzzer finds programs that lack one defense each: one of them at
// random, or all with -fuzzrules.mutants=-1.
func TestRuleFuzzMutants(t *testing.T) {
	mutants := slices.Clone(ruleMutants)
	rand := testseed.Rand(t)
	rand.Shuffle(len(mutants), func(i, j int) { mutants[i], mutants[j] = mutants[j], mutants[i] })
	if n := *fuzzRulesMutants; n >= 0 {
		mutants = mutants[:min(n, len(mutants))]
	}
	for _, server := range fuzzServers {
		of := slices.DeleteFunc(slices.Clone(mutants), func(m ruleMutant) bool { return m.server != server })
		if len(of) == 0 {
			continue
		}
		t.Run(server, func(t *testing.T) {
			addr := fuzzServer(t, server)
			for _, m := range of {
				t.Run(filepath.Base(m.file), func(t *testing.T) { findMutant(t, addr, m) })
			}
		})
	}
}

// findMutant builds the mutant and runs the fuzzer until it finds an evasion.
func findMutant(t *testing.T, addr string, m ruleMutant) {
	dir := t.TempDir()
	path, source, err := m.source()
	must(t, err)
	mutated := filepath.Join(dir, "mutant.go")
	must(t, os.WriteFile(mutated, []byte(strings.Replace(source, m.from, m.to, 1)), 0o600))
	overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{path: mutated}})
	must(t, err)
	must(t, os.WriteFile(filepath.Join(dir, "overlay.json"), overlay, 0o600))
	own := binary
	defer func() { binary = own }()
	binary = filepath.Join(dir, "tare")
	build := exec.CommandContext(t.Context(), "go", "build", "-C", repository, "-overlay", filepath.Join(dir, "overlay.json"), "-o", binary, "./cmd/tare")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the mutant of %s: %v\n%s", m.file, err, out)
	}
	f := newRuleFuzz(t, addr)
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	for len(f.found) == 0 && ctx.Err() == nil {
		f.session()
	}
	if len(f.found) == 0 {
		t.Fatalf("the fuzzer does not find %s without %q", m.file, m.from)
	}
	for name, how := range f.found {
		t.Logf("found after %d statements: %s: %s", f.ran+f.refused+f.invalid, name, how)
	}
}
