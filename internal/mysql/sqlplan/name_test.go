package sqlplan

import (
	"testing"

	"github.com/taredb/tare/mysql/sqldigest"
)

// TestUnsureNames plans statements whose names the server may read as the blocked table's, and ones that it cannot.
func TestUnsureNames(t *testing.T) {
	p, err := New(Options{Rules: []Rule{{Name: "secret", Action: ActionBlock, Tables: []string{"app.secret"}}}})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		charset, sql string
		blocked      bool
	}{
		{"utf8mb4", "select s from app\xc3.secret", true},
		{"utf8mb4", "select s from `\xf0\x9f\x98\x80`.secret", true}, // not in utf8mb3
		{"utf8mb4", "select s from app.`secre\x01`", true},
		{"utf8mb4", "select s from app.`größe`", false},
		{"utf8mb4", "select s from `größe`.secret", false},
		{"utf8mb4", "call `sys\xe2`.execute_prepared_stmt('x')", true},
		{"utf8mb4", "select `load_file\xe2`('x')", true},
		{"utf8mb4", "set `sql_mode ` = ''", true},
		{"utf8mb4", "create table n like `app\xff`.secret", true},
		{"gbk", "select s from `app\xff`.secret", true},
		{"gbk", "select s from `\xb4\xf3\xd0\xa1wxyz`.secret", false},
		{"sjis", "select s from `\xb1x`.secret", false},
		{"sjis", "select s from `app\xfd`.secret", true},
		{"ujis", "select s from `\x8f\xb0\xa1wxyz`.secret", false},
		{"ujis", "select s from `app\x8f\xb0`.secret", true},
		{"gb18030", "select s from `\x81\x30\x81\x30x`.secret", false},
		{"latin1", "select s from `gr\xf6\xdfe`.secret", false},
		{"ascii", "select s from `app\x80`.secret", true},
	} {
		m := sqldigest.Mode(0).WithServer(sqldigest.Server{Kind: sqldigest.ServerMySQL, Version: 90700}).WithCharset(sqldigest.CharsetNamed([]byte(c.charset)))
		var d sqldigest.Digester
		digest := d.Digest([]byte(c.sql), m)
		plan := p.Plan(Statement{
			SQL: []byte(c.sql), Complete: true, Text: d.Text(), Digest: digest, Scope: p.ScopeOf([]byte("test"), []byte("u"), m),
			Schema: []byte("test"), User: []byte("u"), Mode: m,
		})
		if v, _ := plan.Verdict(); v.Refuses() != c.blocked {
			t.Errorf("%s: %q: %s (tables %v)", c.charset, c.sql, v, tablesOf(plan))
		}
	}
}

func tablesOf(p *Plan) (all []string) {
	for t := range p.Tables() {
		all = append(all, t.String())
	}
	return all
}
