package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A ruleMutant is the program without one of its defenses: text of a source file replaced.
type ruleMutant struct {
	file, from, to string
	server         string // on which the fuzzer finds it
}

var ruleMutants = []ruleMutant{
	{"gateway/forward.go", "if x.backend.Buffered()[mysqlwire.HeaderLen] == mysqlwire.MarkErr {\n\t\treturn x.relay()\n\t}", "", "MariaDB"},
	{"gateway/refusal.go", "return x.refusal()\n}\n\n// appendQuoted", "return nil\n}\n\n// appendQuoted", "MariaDB"},
	{"gateway/statementtext.go", "default:\n\t\t\treturn 0", "default:\n\t\t\treturn m.Charset()", "MySQL"},
	{"gateway/executor.go", "x.planIn(st.text, false, st.divergent, x.modes.scopeIn(st.schema, st.mode), st.schema, st.mode)", "x.findPlan(st.text, false, st.divergent)", "MariaDB"},
	{"gateway/executor.go", "x.modes.forget() // a prepared statement, or one of several statements", "", "MariaDB"},
	{"gateway/executor.go", "|| x.plan.Effects().Any(readingEffects)", "|| x.plan.Effects().Any(readingEffects&0)", "TiDB"},
	{"mysql/sqldigest/class.go", "case ctypeTables[i][c] == 's':", "case false:", "MySQL"},
	{"mysql/sqldigest/scan.go", "s.unsure = s.unsure || !plainHint(rest[3:])", "", "MySQL"},
	{"mysql/sqldigest/scan.go", "s.mode.kind() != ServerMariaDB && s.mode.kind() != ServerMySQL:\n\t\ts.unsure = true", "s.mode.kind() != ServerMariaDB && s.mode.kind() != ServerMySQL:", "TiDB"},
	{"internal/mysql/sqlplan/content.go", "return ts.has(\"status\", next, hi)", "return false", "MariaDB"},
	{"internal/mysql/sqlplan/content.go", "return ts.has(\"for\", next, hi)", "return false", "MariaDB"},
	{"internal/mysql/sqlplan/content.go", "\"data_locks\", \"user_variables_by_thread\", \"error_log\"", "\"error_log\"", "MySQL"},
	{"internal/mysql/sqlplan/content.go", "if ts.is(i, \"for\") && ts.is(i+1, \"connection\") {", "if false {", "TiDB"},
	{"internal/mysql/sqlplan/name.go", "return name == word || !isASCII(name) && mayMatch(word, name) ||", "return name == word ||", "MySQL"},
	{"internal/mysql/sqlplan/set.go", "a.hide() // no variable has such a name, and servers equate it with one", "", "MySQL"},
	{"internal/mysql/sqlplan/effects.go", "a.effects |= EffectSequence\n\t\ta.sequence = true\n\tcase \"currval\":", "case \"currval\":", "MariaDB"},
	{"internal/mysql/sqlplan/effects.go", "a.tables.unknownCall = true", "", "MariaDB"},
	{"internal/mysql/sqlplan/effects.go", "a.anyTable = true\n\t\ta.effects |= EffectFileRead", "a.effects |= EffectFileRead", "MySQL"},
	{"internal/mysql/sqlplan/functionserver.go", "if !builtin(name) {\n\t\treturn false\n\t}", "if builtin(name) {\n\t\treturn true\n\t}", "MariaDB"},
	{"internal/mysql/sqlplan/mode.go", "|| len(sql) == 0", "", "MySQL"},
	{"internal/mysql/sqlplan/parse.go", "a.references(ddl.GetTable())", "_ = ddl", "MariaDB"},
	{"internal/mysql/sqlplan/reach.go", "a.hide() // it may have been prepared before the rules were set", "", "MariaDB"},
	{"internal/mysql/sqlplan/reach.go", "return schema == \"\" || a.mayBe(schema, \"sys\") || a.mayBe(schema, \"mysql\")", "return schema == \"\"", "MariaDB"},
	{"internal/mysql/sqlplan/reach.go", "a.anyTable = a.anyTable || a.is(i, \"read\")", "_ = i", "MariaDB"},
	{"internal/mysql/sqlplan/content.go", "a.anyTable = a.anyTable || a.contentTable(t.schema, t.name)", "_ = t", "MariaDB"},
	{"internal/mysql/sqlplan/reach.go", "return false\n\t}\n\tswitch name {\n\tcase \"ddl_slow_threshold\"", "return false\n\t}\n\tswitch \"\" {\n\tcase \"ddl_slow_threshold\"", "TiDB"},
	{"internal/mysql/sqlplan/spell.go", "if unsure || globName(p.schema, name) {", "if wholeSchema && (unsure || globName(p.schema, name)) {", "MariaDB"},
	{"internal/mysql/sqlplan/tables.go", "s.relative(target, t, AccessRead|AccessWrite)", "_, _ = target, t", "MariaDB"},
	{"internal/mysql/sqlplan/tables.go", "s.unknownCall = true", "", "MariaDB"},
}

// source returns the path of the mutant's file, and its text, in which the text to be replaced is once.
func (m ruleMutant) source() (path, text string, err error) {
	if path, err = filepath.Abs(filepath.Join("..", m.file)); err != nil {
		return "", "", err
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return "", "", err
	}
	if n := strings.Count(string(b), m.from); n != 1 {
		return "", "", fmt.Errorf("%s has the text to be replaced %d times: %q", m.file, n, m.from)
	}
	return path, string(b), nil
}

// TestRuleMutantsApply checks that the defenses which TestRuleFuzzMutants removes are in the sources: without the tag e2e,
// so that a change of them fails at once.
func TestRuleMutantsApply(t *testing.T) {
	for _, m := range ruleMutants {
		if _, _, err := m.source(); err != nil {
			t.Error(err)
		}
	}
}
