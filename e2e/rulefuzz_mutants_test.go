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

// A ruleMutant is the program without one of its defenses: text of a source file replaced.
type ruleMutant struct {
	file, from, to string
	server         string // on which the fuzzer finds it
}

var ruleMutants = []ruleMutant{
	{"gateway/forward.go", "if s.backend.Buffered()[mysqlwire.HeaderLen] == mysqlwire.MarkErr {\n\t\treturn s.relay()\n\t}", "", "MariaDB"},
	{"gateway/judge.go", "return s.refusal()\n}\n\n// appendQuoted", "return nil\n}\n\n// appendQuoted", "MariaDB"},
	{"gateway/username.go", "name = name[1 : n-1]", "", "MariaDB"},
	{"gateway/statementtext.go", "default:\n\t\t\treturn 0", "default:\n\t\t\treturn m.Charset()", "MySQL"},
	{"gateway/statement.go", "s.planIn(st.text, false, st.divergent, s.srv.opts.Planner.ScopeOf(schema, s.user, st.mode), schema, st.mode)", "s.findPlan(st.text, false, st.divergent)\n\t_ = schema", "MariaDB"},
	{"gateway/statement.go", "s.forgetModes() // a prepared statement, or one of several statements", "", "MariaDB"},
	{"gateway/statement.go", "|| s.plan.Effects().Any(readingEffects)", "|| s.plan.Effects().Any(readingEffects&0)", "TiDB"},
	{"sqldigest/class.go", "case ctypeTables[i][c] == 's':", "case false:", "MySQL"},
	{"sqldigest/scan.go", "s.unsure = s.unsure || !plainHint(rest[3:])", "", "MySQL"},
	{"sqldigest/scan.go", "s.mode.kind() != ServerMariaDB && s.mode.kind() != ServerMySQL:\n\t\ts.unsure = true", "s.mode.kind() != ServerMariaDB && s.mode.kind() != ServerMySQL:", "TiDB"},
	{"sqlplan/content.go", "return a.has(\"status\", next, hi)", "return false", "MariaDB"},
	{"sqlplan/content.go", "return a.has(\"for\", next, hi)", "return false", "MariaDB"},
	{"sqlplan/content.go", "\"data_locks\", \"user_variables_by_thread\", \"error_log\"", "\"error_log\"", "MySQL"},
	{"sqlplan/content.go", "if a.is(i, \"for\") && a.is(i+1, \"connection\") {", "if false {", "TiDB"},
	{"sqlplan/fold.go", "name == word || !isASCII(name) && mayMatch(word, name)", "name == word", "MySQL"},
	{"sqlplan/set.go", "a.hide() // no variable has such a name, and servers equate it with one", "", "MySQL"},
	{"sqlplan/effects.go", "a.effects |= EffectSequence\n\t\ta.sequence = true\n\tcase \"currval\":", "case \"currval\":", "MariaDB"},
	{"sqlplan/effects.go", "a.tables.unknownCall = true", "", "MariaDB"},
	{"sqlplan/effects.go", "case \"load_file\":\n\t\ta.anyTable = true", "", "MySQL"},
	{"sqlplan/functionserver.go", "if !builtin(name) {\n\t\treturn false\n\t}", "if builtin(name) {\n\t\treturn true\n\t}", "MariaDB"},
	{"sqlplan/mode.go", "|| len(sql) == 0", "", "MySQL"},
	{"sqlplan/parse.go", "a.references(ddl.GetTable())", "_ = ddl", "MariaDB"},
	{"sqlplan/reach.go", "a.hide() // it may have been prepared before the rules were set", "", "MariaDB"},
	{"sqlplan/reach.go", "return schema == \"\" || schema == \"sys\" || schema == \"mysql\"", "return schema == \"\"", "MariaDB"},
	{"sqlplan/reach.go", "a.anyTable = a.anyTable || a.is(i, \"read\")", "_ = i", "MariaDB"},
	{"sqlplan/content.go", "a.anyTable = a.anyTable || contentTable(t.schema, t.name)", "_ = t", "MariaDB"},
	{"sqlplan/reach.go", "return false\n\t}\n\tswitch name {\n\tcase \"ddl_slow_threshold\"", "return false\n\t}\n\tswitch \"\" {\n\tcase \"ddl_slow_threshold\"", "TiDB"},
	{"sqlplan/spell.go", "if globName(p.schema, name) {", "if wholeSchema && globName(p.schema, name) {", "MariaDB"},
	{"sqlplan/tables.go", "s.relative(target, t, AccessRead|AccessWrite)", "_, _ = target, t", "MariaDB"},
	{"sqlplan/tables.go", "s.unknownCall = true", "", "MariaDB"},
}

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
	path, err := filepath.Abs(filepath.Join("..", m.file))
	must(t, err)
	source, err := os.ReadFile(path)
	must(t, err)
	if n := strings.Count(string(source), m.from); n != 1 {
		t.Fatalf("%s has the text to be replaced %d times: %q", m.file, n, m.from)
	}
	mutated := filepath.Join(dir, "mutant.go")
	must(t, os.WriteFile(mutated, []byte(strings.Replace(string(source), m.from, m.to, 1)), 0o600))
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
