package state

import (
	"errors"
	"strings"
	"testing"

	"github.com/taredb/tare/internal/move/tabledef"
	"github.com/taredb/tare/internal/mysql/session"
	"github.com/taredb/tare/internal/testmysql"
	"github.com/taredb/tare/internal/testrows"
)

// TestLoadMalformed has a batch whose rows cannot be read: it is no loaded batch.
func TestLoadMalformed(t *testing.T) {
	b := testrows.BatchOf(testrows.Row("1", "text"))
	b.Bytes = b.Bytes[:len(b.Bytes)-1]
	c := &ChunkWriter{w: &Writer{}, loading: true}
	if err := c.load(t.Context(), b); err == nil || !strings.Contains(err.Error(), "ends within the value") {
		t.Errorf("a batch without its last byte: %v", err)
	}
}

// TestReadCommitted has the level of writers' transactions by the format of the target's log.
func TestReadCommitted(t *testing.T) {
	server := testmysql.Start(t, testmysql.WithBinlog())
	for format, want := range map[string]string{"ROW": "READ-COMMITTED", "MIXED": "READ-COMMITTED", "STATEMENT": "REPEATABLE-READ"} {
		c := testrows.Connect(t, testrows.Root(server))
		testrows.Exec(t, c, "SET SESSION binlog_format = "+format)
		if err := (&Writer{}).readCommitted(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		if got, err := session.QueryValue(t.Context(), c, "SELECT @@SESSION.tx_isolation"); err != nil || got != want {
			t.Errorf("%s: %s, %v, want %s", format, got, err, want)
		}
	}
}

// TestLookupNotRecorded resumes a copy whose lookup table has no record.
func TestLookupNotRecorded(t *testing.T) {
	f := newFaults(t)
	err := f.st.KeepLookup(t.Context(), f.holder, f.lookup, true)
	if !errors.Is(err, ErrState) || !strings.Contains(err.Error(), "are not recorded") {
		t.Error(err)
	}
	if n := testrows.Column(t, f.holder, "SELECT COUNT(*) FROM _tare.copy_lookup"); n[0] != "0" {
		t.Errorf("%s records after the refusal", n[0])
	}
}

// TestCarefulNull writes rows with NULL in a unique key one by one: such a row replaces no other, whatever value NULL has in a statement.
func TestCarefulNull(t *testing.T) {
	f := newFaults(t)
	f.exec("CREATE TABLE src.u (id INT PRIMARY KEY, n INT, v VARCHAR(5), UNIQUE KEY (n), UNIQUE KEY (v))", "CREATE TABLE dst.u LIKE src.u",
		"INSERT INTO dst.u VALUES (7, 0, ''), (8, NULL, NULL)")
	parts := [][]tabledef.Spec{{{Schema: "src", Name: "u", ToSchema: "dst", ToName: "u"}}, {{Schema: "src", Name: "u", ToSchema: "dst", ToName: "u"}}}
	f.must(tabledef.AddMerge(parts, []string{"one:1", "two:2"}, "src.u: range(id, 1000)"))
	table := f.describe(&parts[0][0])
	w := f.writer(f.direct)
	defer w.Close()
	w.Careful = true
	c, err := w.Begin(t.Context(), &table.Target)
	f.must(err)
	defer c.Abort()
	f.must(c.Write(t.Context(), testrows.BatchOf(testrows.Row("5", nil, "x"), testrows.Row("6", "1", nil), testrows.Row("9", nil, nil))))
	got := strings.Join(testrows.Column(t, w.Conn, "SELECT CONCAT_WS('|', id, COALESCE(n, 'NULL'), COALESCE(v, 'NULL')) FROM dst.u ORDER BY id"), " ")
	if want := "5|NULL|x 6|1|NULL 7|0| 8|NULL|NULL 9|NULL|NULL"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
