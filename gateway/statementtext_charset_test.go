package gateway

import (
	"testing"

	"github.com/taredb/tare/internal/testmysql"
	"github.com/taredb/tare/mysqlwire"
	"github.com/taredb/tare/sqldigest"
	"github.com/taredb/tare/sqlplan"
)

func TestCharsetOf(t *testing.T) {
	for sql, want := range map[string]string{
		"SET NAMES utf8mb4":                             "utf8mb4",
		"set names 'GBK'":                               "gbk",
		"set names gb18030 collate gb18030_bin":         "gb18030",
		"SET CHARACTER SET sjis":                        "sjis",
		"set charset /* x */ latin1;":                   "",
		"set charset latin1":                            "latin1",
		"set character_set_client = cp932":              "",
		"set names gbk, character_set_client = utf8mb4": "",
		"set names gbk, names utf8mb4":                  "",
		"set names default":                             "",
		"set names 0x67626b":                            "",
		"set character_set_client = @x":                 "",
		"set names ?":                                   "",
		"set names gbk; select 1":                       "",
		"set names /*!99999 x */ gbk":                   "gbk",
		"":                                              "",
	} {
		mode := sqldigest.Mode(0).WithServer(sqldigest.ParseServer("10.11.6-MariaDB"))
		if got := charsetOf([]byte(sql), mode); got.String() != want {
			t.Errorf("%q: %q, want %q", sql, got, want)
		}
	}
}

// TestCharsetIsFollowed sends bytes that hide a statement from readers that assume the wrong character set:
// in gbk 0xbf 0x5c is one character and no escape.
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
