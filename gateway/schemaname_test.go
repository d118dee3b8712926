package gateway_test

import (
	"fmt"
	"testing"

	"github.com/taredb/tare/internal/gateway/switchover"
	"github.com/taredb/tare/internal/testscript"
	"github.com/taredb/tare/mysql/mysqlconn"
)

// TestSchemaNamesGoAlong switches sessions whose default schema has a name beyond ASCII, in character sets that have its
// letters and in ones that lack them. The session keeps its schema and its character set.
func TestSchemaNamesGoAlong(t *testing.T) {
	p := startPair(t, nil)
	names := []string{"größe", "表", "имя", "a b"}
	for i, s := range p.servers {
		for _, name := range names {
			must(t, s.Exec("CREATE DATABASE `"+name+"`", fmt.Sprintf("CREATE TABLE `%s`.note (side INT) SELECT %d AS side", name, i)))
		}
	}
	sessions := map[string]*mysqlconn.Client{}
	for _, name := range names {
		for _, charset := range []string{"utf8mb4", "latin1", "ascii", "cp1251", "sjis", "binary"} {
			c := p.session(t)
			for _, sql := range []string{"SET NAMES utf8mb4", "USE `" + name + "`", "SET NAMES " + charset} {
				if _, err := testscript.Exec(t, c, sql); err != nil {
					t.Fatalf("%s: %v", sql, err)
				}
			}
			prepareOne(t, c, "SELECT side FROM note WHERE side = ?") // so that the schema is selected under this character set
			if _, err := testscript.Exec(t, c, "USE shop"); err != nil {
				t.Fatal(err)
			}
			prepareOne(t, c, "SELECT ?")
			if _, err := testscript.Exec(t, c, "SET NAMES utf8mb4"); err != nil {
				t.Fatal(err)
			}
			for _, sql := range []string{"USE `" + name + "`", "SET NAMES " + charset} {
				if _, err := testscript.Exec(t, c, sql); err != nil {
					t.Fatalf("%s: %v", sql, err)
				}
			}
			sessions[name+" "+charset] = c
		}
	}
	const question = "SELECT CONCAT_WS('|', @@character_set_client, @@character_set_results, @@collation_connection, HEX(CONVERT(DATABASE() USING utf8mb4)), IFNULL(@_tare_charset, 'unset'))"
	before := map[string]string{}
	for name, c := range sessions {
		before[name] = value(t, c, question)
	}
	p.mustSwitch(t, switchover.Standby)
	for name, c := range sessions {
		if after := value(t, c, question); after != before[name] {
			t.Errorf("%s: on the other side: %s, want %s", name, after, before[name])
		}
		if side := value(t, c, "SELECT side FROM note"); side != "1" {
			t.Errorf("%s: side %s, want 1", name, side)
		}
	}
}
