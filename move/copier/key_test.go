package copier_test

import (
	"strings"
	"testing"

	"github.com/taredb/tare/move/copier"
)

// TestKeys copies and follows tables whose keys have unusual names, directions or options, and checks that
// tables with keys unusable for REPLACE are refused.
func TestKeys(t *testing.T) {
	p := newPair(t, "oddkeys")
	sqlExec(t, p.source,
		"CREATE TABLE descending (a INT NOT NULL, b VARCHAR(10) NOT NULL, c INT, PRIMARY KEY (a DESC, b), UNIQUE KEY `new\nline ``'` (c, a) COMMENT 'x) y', KEY `k\n1` (c))",
		"INSERT INTO descending SELECT seq % 10, seq, seq FROM seq_1_to_1000",
		"CREATE TABLE ignored (a INT NOT NULL, b INT NOT NULL, UNIQUE KEY b (b), UNIQUE KEY a (a) IGNORED)", "INSERT INTO ignored SELECT seq, -seq FROM seq_1_to_100",
		"CREATE TABLE period (id INT, f DATE, t DATE, PERIOD FOR p (f, t), PRIMARY KEY (id, p WITHOUT OVERLAPS))",
		"CREATE TABLE period2 (n INT PRIMARY KEY, id INT, f DATE, t DATE, PERIOD FOR p (f, t), UNIQUE KEY u (id, p WITHOUT OVERLAPS))")
	o := p.options("descending", "ignored")
	o.ChunkBytes = 1 << 10
	if _, err := copier.Run(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"descending", "ignored"} {
		p.same(t, name)
	}
	o = p.options("descending", "ignored")
	o.Follow, o.UntilCaughtUp, o.Restart = true, true, true
	if _, err := copier.Run(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	sqlExec(t, p.source, "UPDATE descending SET c = c + 5000 WHERE a = 3", "DELETE FROM ignored WHERE b > -10", "DELETE FROM descending WHERE a = 4")
	o.Restart = false
	if _, err := copier.Run(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	p.same(t, "descending")
	p.same(t, "ignored")
	for table, want := range map[string]string{"period": "its key PRIMARY is WITHOUT OVERLAPS", "period2": "its key u is WITHOUT OVERLAPS"} {
		o := p.options(table)
		if _, err := copier.Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", table, err)
		}
	}
}
