package gateway

import (
	"testing"

	"github.com/taredb/tare/internal/testmysql"
	"github.com/taredb/tare/mysqlwire"
	"github.com/taredb/tare/sqldigest"
	"github.com/taredb/tare/sqlplan"
)

func TestCharsetMode(t *testing.T) {
	for _, c := range []struct {
		sql   string
		mode  sqldigest.Mode
		known bool
	}{
		{"SET NAMES utf8mb4", 0, true},
		{"set names 'GBK'", sqldigest.GBK, true},
		{"set names gb18030 collate gb18030_bin", sqldigest.GBK, true},
		{"SET CHARACTER SET sjis", sqldigest.SJIS, true},
		{"set character_set_client = cp932", sqldigest.SJIS, true},
		{"set @@session.character_set_client = `big5`", sqldigest.Big5, true},
		{"set character_set_client = @x", 0, false},
		{"set character_set_client = @@character_set_database", 0, false},
		{"set character_set_client = ?", 0, false},
		{"", 0, false},
	} {
		if mode, known := charsetMode([]byte(c.sql), 0); mode != c.mode && c.known || known != c.known {
			t.Errorf("%q: mode %b, known %v; want %b, %v", c.sql, mode, known, c.mode, c.known)
		}
	}
}

// TestCharsetIsFollowed sends bytes that hide a statement from a reader who does not know the
// client's character set: in gbk 0xbf 0x5c is one character and no escape.
func TestCharsetIsFollowed(t *testing.T) {
	s := testmysql.Shared(t)
	g := startGateway(t, s.Addr, nil)
	if err := g.opts.Planner.SetRules([]sqlplan.Rule{{Name: "no-ddl", Action: sqlplan.ActionBlock, Types: []sqlplan.Type{sqlplan.TypeDDL}}}); err != nil {
		t.Fatal(err)
	}
	c := raw(t, g, s, mysqlwire.CapMultiStatements)
	const hidden = "select '\xbf\x5c'; create table hidden (a int); -- '"
	for _, set := range []string{"set names gbk", "set @x = 'gbk'; set character_set_client = @x"} {
		if _, err := exec(t, c, set); err != nil {
			t.Fatal(err)
		}
		_, err := exec(t, c, hidden)
		if e, ok := serverError(err); !ok || e.Number != mysqlwire.ErrnoSpecificAccessDenied {
			t.Errorf("after %q: %v, want the rule's refusal", set, err)
		}
		if _, err := exec(t, c, "set names utf8mb4"); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := exec(t, c, "select '\\''"); err != nil {
		t.Errorf("back in utf8mb4: %v", err)
	}
}
