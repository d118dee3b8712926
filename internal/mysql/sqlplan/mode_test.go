package sqlplan

import (
	"testing"

	"github.com/taredb/tare/mysql/sqldigest"
)

func TestSessionMode(t *testing.T) {
	const ansi, noBackslash = sqldigest.ANSIQuotes, sqldigest.NoBackslashEscapes
	p := newPlanner(t)
	for _, c := range []struct {
		sql   string
		cur   sqldigest.Mode
		want  sqldigest.Mode
		known bool
	}{
		{"select 1", ansi, ansi, true},
		{"set names utf8mb4", ansi, ansi, true},
		{"set sql_mode = ''", ansi | noBackslash, 0, true},
		{"SET SESSION sql_mode = 'STRICT_ALL_TABLES,ansi_quotes'", 0, ansi, true},
		{"set @@sql_mode := 'NO_BACKSLASH_ESCAPES'", 0, noBackslash, true},
		{"set @@session.`sql_mode` = 'ANSI'", 0, ansi, true},
		{"set local sql_mode = 'TRADITIONAL'", ansi, 0, true},
		{"set sql_mode = ANSI_QUOTES", 0, ansi, true},
		{`set sql_mode = "ANSI_QUOTES"`, 0, ansi, true},
		{`set sql_mode = "ANSI_QUOTES"`, ansi, ansi, true},
		{"set sql_mode = 1048580", 0, ansi | noBackslash, true},
		{"set sql_mode = 0", ansi, 0, true},
		{"set a = 1, sql_mode = 'ANSI', sql_mode = 'NO_BACKSLASH_ESCAPES'", 0, noBackslash, true},
		{"set global sql_mode = 'ANSI'", 0, 0, true},
		{"set @@global.sql_mode = 'ANSI'", 0, 0, true},
		{"set @sql_mode = 'ANSI'", 0, 0, true},
		{"set global sql_mode = '', session sql_mode = 'ANSI'", 0, ansi, true},
		{"/*!40101 SET @OLD_SQL_MODE=@@SQL_MODE, SQL_MODE='NO_BACKSLASH_ESCAPES' */", 0, noBackslash, true},

		{"set sql_mode = default", ansi, ansi, false},
		{"set sql_mode = @old", ansi, ansi, false},
		{"set sql_mode = ?", ansi, ansi, false},
		{"set sql_mode = concat(@@sql_mode, ',ANSI_QUOTES')", 0, 0, false},
		{`set sql_mode = 'ANSI\_QUOTES'`, 0, 0, false},
		{"set sql_mode = 'ANSI''_QUOTES'", 0, 0, false},
		{"set sql_mode = 'ANSI' 'x'", 0, 0, false},
		{"set sql_mode = _latin1'ANSI'", 0, 0, false},
		{"set sql_mode = 'unterminated", 0, 0, false},
		{"execute s", ansi, ansi, false},
		{"set sql_mode = 'ANSI_QUOTES'; select 1", 0, 0, false},
		{"frobnicate", 0, 0, false},
		{"set sql_möde = ''", ansi, ansi, false},
		{"set @x = 1, @@session.`ſql_mode` = 4", 0, 0, false},
		{"set chäracter_set_client = gbk", 0, 0, false},
		{"set sql_mode = 'ÄNSI'", 0, 0, false},
		{"set sql_mode = ÄNSI", 0, 0, false},
	} {
		cl := client{mode: c.cur}
		plan := p.Plan(cl.statement(p, c.sql))
		got, known := plan.SessionMode([]byte(c.sql), c.cur)
		if known != c.known || known && got != c.want || !known && got != c.cur {
			t.Errorf("%s in mode %b: mode %b, known %v; want %b, %v", c.sql, c.cur, got, known, c.want, c.known)
		}
	}
}

// TestModeIsNotInThePlan asserts that values that share a digest share a plan that is right for both.
func TestModeIsNotInThePlan(t *testing.T) {
	p := newPlanner(t)
	var c client
	ansi := p.Plan(c.statement(p, "set sql_mode = 'ANSI_QUOTES'"))
	none := p.Plan(c.statement(p, "set sql_mode = ''"))
	if ansi != none {
		t.Fatal("two plans for two values of one statement")
	}
	if m, _ := ansi.SessionMode([]byte("set sql_mode = ''"), 0); m != 0 {
		t.Errorf("mode %b after an empty sql_mode", m)
	}
	if m, _ := ansi.SessionMode([]byte("set sql_mode = 'ANSI_QUOTES'"), 0); m != sqldigest.ANSIQuotes {
		t.Errorf("mode %b after ANSI_QUOTES", m)
	}
	on, off := p.Plan(c.statement(p, "set autocommit = 1")), p.Plan(c.statement(p, "set autocommit = 0"))
	if on != off || !on.Effects().Has(EffectAutocommit) {
		t.Errorf("autocommit: effects %v and %v", on.Effects(), off.Effects())
	}
}
