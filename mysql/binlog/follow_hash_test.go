package binlog_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/taredb/tare/internal/testmysql"
	"github.com/taredb/tare/internal/testrows"
	"github.com/taredb/tare/mysql/binlog"
	"github.com/taredb/tare/mysql/rowstream"
)

// TestFollowHashKeys follows tables of MariaDB with unique keys by hash: a long one has a hidden column in
// the log, one of the engine MEMORY has none.
func TestFollowHashKeys(t *testing.T) {
	s := testmysql.Start(t, testmysql.WithBinlog())
	d, c := testrows.Direct(t, testrows.Root(s)), testrows.Connect(t, testrows.Root(s))
	testrows.Exec(t, c, "CREATE DATABASE f", "USE f")
	definitions := map[string]string{
		"innodb": "(id INT PRIMARY KEY, s TEXT, UNIQUE KEY s (s)) ENGINE=InnoDB",
		"myisam": "(id INT PRIMARY KEY, s TEXT, UNIQUE KEY s (s)) ENGINE=MyISAM",
		"memory": "(id INT PRIMARY KEY, s VARCHAR(9), UNIQUE KEY s (s) USING HASH) ENGINE=MEMORY",
	}
	for name, definition := range definitions {
		testrows.Exec(t, c, "CREATE TABLE "+name+" "+definition)
		table, err := d.Describe(t.Context(), "f", name)
		if err != nil {
			t.Fatal(err)
		}
		from := testrows.Now(t, d, true)
		testrows.Exec(t, c, "INSERT INTO "+name+" VALUES (1, 'x')", "UPDATE "+name+" SET s = 'y'")
		got := testrows.Texts(testrows.Until(t, testrows.Follow(t, d, binlog.FollowOptions{From: from, Tables: []*rowstream.Table{table}}), testrows.Now(t, d, true)))
		for i := range got {
			got[i] = strings.TrimSuffix(got[i], ".")
		}
		if diff := cmp.Diff([]string{`0 insert -> ["1" "x"]`, `0 update ["1" "x"] -> ["1" "y"]`}, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}
