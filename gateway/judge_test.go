package gateway_test

import (
	"testing"

	"github.com/taredb/tare/internal/mysql/sqlplan"
	"github.com/taredb/tare/internal/testmysql"
	"github.com/taredb/tare/internal/testscript"
	"github.com/taredb/tare/mysql/mysqlwire"
)

// TestCommandsAreJudged sends commands without text under rules for the equivalent statements.
func TestCommandsAreJudged(t *testing.T) {
	s := testmysql.Shared(t)
	must(t, s.Exec("CREATE OR REPLACE TABLE secret (a INT)", "CREATE TABLE plain (a INT)"))
	g := startGateway(t, s.Addr, nil)
	table := sqlplan.Rule{Name: "table", Action: sqlplan.ActionBlock, Tables: []string{"*.secret"}}
	readOnly := sqlplan.Rule{Name: "ro", Action: sqlplan.ActionReadOnly}
	kills := sqlplan.Rule{Name: "kill", Action: sqlplan.ActionBlock, Types: []sqlplan.Type{sqlplan.TypeKill, sqlplan.TypeShow}}
	for _, c := range []struct {
		name    string
		body    []byte
		rule    sqlplan.Rule
		refused bool
	}{
		{"field list", append([]byte{byte(mysqlwire.ComFieldList)}, "secret\x00"...), table, true},
		{"field list of another", append([]byte{byte(mysqlwire.ComFieldList)}, "plain\x00"...), table, false},
		{"refresh", []byte{byte(mysqlwire.ComRefresh), 1}, readOnly, true},
		{"kill", []byte{byte(mysqlwire.ComProcessKill), 255, 255, 255, 0}, readOnly, true},
		{"kill by type", []byte{byte(mysqlwire.ComProcessKill), 255, 255, 255, 0}, kills, true},
		{"kill under another", []byte{byte(mysqlwire.ComProcessKill), 255, 255, 255, 0}, table, false},
		{"statistics", []byte{byte(mysqlwire.ComStatistics)}, kills, true},
		{"debug", []byte{byte(mysqlwire.ComDebug)}, readOnly, true},
		{"shutdown", []byte{byte(mysqlwire.ComShutdown), 0}, readOnly, true},
		{"create database", append([]byte{byte(mysqlwire.ComCreateDB)}, "x"...), readOnly, true},
		{"binlog dump", append([]byte{byte(mysqlwire.ComBinlogDump)}, make([]byte, 10)...), table, true},
		{"register replica", append([]byte{byte(mysqlwire.ComRegisterReplica)}, make([]byte, 17)...), table, true},
		{"table dump", append([]byte{byte(mysqlwire.ComTableDump)}, "\x04test\x06secret"...), table, true},
		{"clone", []byte{byte(mysqlwire.ComClone)}, readOnly, true},
		{"ping", []byte{byte(mysqlwire.ComPing)}, readOnly, false},
	} {
		must(t, g.planner.SetRules([]sqlplan.Rule{c.rule}))
		client := raw(t, g, s, 0)
		packets := command(t, client, c.body, func(p []byte) bool { return true })
		refused := false
		var e mysqlwire.Err
		if packets[0][0] == mysqlwire.MarkErr && e.Decode(packets[0]) == nil {
			refused = e.Number == mysqlwire.ErrnoSpecificAccessDenied || e.Number == mysqlwire.ErrnoReadOnly
		}
		if refused != c.refused {
			t.Errorf("%s: refused %v, want %v: %q", c.name, refused, c.refused, packets[0])
		}
	}
}

// TestPreparedElsewhere executes statements that were prepared in another schema before the rules existed.
func TestPreparedElsewhere(t *testing.T) {
	s := testmysql.Shared(t)
	must(t, s.Exec("CREATE OR REPLACE TABLE secret (a INT)"))
	g := startGateway(t, s.Addr, nil)
	c := raw(t, g, s, 0)
	packets := command(t, c, append([]byte{byte(mysqlwire.ComStmtPrepare)}, "select a from secret"...), lastOfPrepare())
	id := packets[0][1:5]
	if _, err := testscript.Exec(t, c, "use mysql"); err != nil {
		t.Fatal(err)
	}
	must(t, g.planner.SetRules([]sqlplan.Rule{{Name: "r", Action: sqlplan.ActionBlock, Tables: []string{s.Name + ".secret"}}}))
	execute := append(append([]byte{byte(mysqlwire.ComStmtExecute)}, id...), 0, 1, 0, 0, 0)
	packets = command(t, c, execute, func(p []byte) bool { return true })
	if packets[0][0] != mysqlwire.MarkErr {
		t.Errorf("the blocked table was read: %q", packets[0])
	}
}

// lastOfPrepare accepts the last packet of the response for a statement without parameters and with one
// column.
func lastOfPrepare() func([]byte) bool {
	n := 0
	return func(p []byte) bool {
		n++
		return n == 3 || p[0] == mysqlwire.MarkErr
	}
}
