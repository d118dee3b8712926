package gateway_test

import (
	"testing"

	"github.com/taredb/tare/internal/mysql/sqlplan"
	"github.com/taredb/tare/internal/testmysql"
	"github.com/taredb/tare/internal/testscript"
	"github.com/taredb/tare/mysql/mysqlwire"
)

// TestCharsetIsFollowed sends bytes that hide a statement from readers that assume the wrong character set:
// in gbk 0xbf 0x5c is one character and no escape.
func TestCharsetIsFollowed(t *testing.T) {
	s := testmysql.Shared(t)
	g := startGateway(t, s.Addr, nil)
	if err := g.planner.SetRules([]sqlplan.Rule{{Name: "no-ddl", Action: sqlplan.ActionBlock, Types: []sqlplan.Type{sqlplan.TypeDDL}}}); err != nil {
		t.Fatal(err)
	}
	c := raw(t, g, s, mysqlwire.CapMultiStatements)
	const hidden = "select '\xbf\x5c'; create table hidden (a int); -- '"
	for _, set := range []string{"set names gbk", "set @x = 'gbk'; set character_set_client = @x"} {
		if _, err := testscript.Exec(t, c, set); err != nil {
			t.Fatal(err)
		}
		_, err := testscript.Exec(t, c, hidden)
		if e, ok := testscript.ServerError(err); !ok || e.Number != mysqlwire.ErrnoSpecificAccessDenied {
			t.Errorf("after %q: %v, want the rule's refusal", set, err)
		}
		if _, err := testscript.Exec(t, c, "set names utf8mb4"); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := testscript.Exec(t, c, "select '\\''"); err != nil {
		t.Errorf("back in utf8mb4: %v", err)
	}
}
