package binlog_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/taredb/tare/internal/testrows"
	"github.com/taredb/tare/mysql/binlog"
	"github.com/taredb/tare/mysql/rowstream"
)

// elsewhere returns a position as reported by another server of the same replication group, where the files
// have higher numbers.
func elsewhere(p binlog.Position) binlog.Position {
	p.File, p.Offset = "binlog.000099", 1<<30
	return p
}

// TestFollowFailover reads the log of another server than the one that reported the positions: no group after
// them is skipped because its file and offset are lower there.
func TestFollowFailover(t *testing.T) {
	testrows.XAServers(t, func(t *testing.T, d *binlog.Direct, one, _ func(...string), tables []*rowstream.Table) {
		from, err := d.NamePosition(t.Context(), testrows.Now(t, d, false))
		if err != nil {
			t.Fatal(err)
		}
		if from.GTID == "" {
			t.Fatalf("%s has no GTID", from)
		}
		one("INSERT INTO a VALUES (1, 1, 'one')", "INSERT INTO a VALUES (2, 2, 'two')")
		later, err := d.NamePosition(t.Context(), testrows.Now(t, d, false))
		if err != nil {
			t.Fatal(err)
		}
		one("INSERT INTO a VALUES (3, 3, 'three')", "INSERT INTO a VALUES (4, 4, 'four')")
		to := testrows.Now(t, d, false)
		for name, tt := range map[string]struct {
			start binlog.Position
			want  []string
		}{
			"from the tables' position":      {elsewhere(from), []string{`0 insert -> ["1" "1" "one"].`, `0 insert -> ["2" "2" "two"].`, `0 insert -> ["3" "3" "three"].`, `0 insert -> ["4" "4" "four"].`}},
			"from before the table's":        {elsewhere(later), []string{`0 insert -> ["3" "3" "three"].`, `0 insert -> ["4" "4" "four"].`}},
			"from before the table's, known": {later, []string{`0 insert -> ["3" "3" "three"].`, `0 insert -> ["4" "4" "four"].`}},
		} {
			got := testrows.Texts(testrows.Until(t, testrows.Follow(t, d, binlog.FollowOptions{From: binlog.Position{GTID: from.GTID}, Tables: tables, Starts: []binlog.Position{tt.start}}), to))
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("%s: %s", name, diff)
			}
		}

		one("ALTER TABLE a COMMENT 'altered'")
		_, stop := testrows.UntilStop(t, d, binlog.FollowOptions{From: from, Tables: tables, Defined: []binlog.Position{elsewhere(from)}})
		if stop.Reason != binlog.StopSchema {
			t.Errorf("a change of the definition behind the known one: %v", stop)
		}
		found, err := d.SchemaChanges(t.Context(), tables, elsewhere(from), testrows.Now(t, d, false))
		if err != nil || len(found) != 1 || !found[0].Rows {
			t.Errorf("changes of the definition behind %s: %v, %v", from, found, err)
		}
	})
}

func TestPositionOrder(t *testing.T) {
	const a, b = "3e11fa47-71ca-11e1-9e33-c80aa9429562", "4e11fa47-71ca-11e1-9e33-c80aa9429562"
	at := func(file string, offset uint64, gtid string) binlog.Position {
		return binlog.Position{File: file, Offset: offset, GTID: gtid}
	}
	for name, tt := range map[string]struct {
		p, q            binlog.Position
		reaches         bool // p of q
		before, unknown bool // p and q
	}{
		"files alone":                     {p: at("b.1", 9, ""), q: at("b.2", 4, ""), before: true},
		"files alone, reached":            {p: at("b.2", 4, ""), q: at("b.2", 4, ""), reaches: true},
		"one GTID":                        {p: at("b.2", 9, "0-1-5"), q: at("b.2", 4, ""), reaches: true},
		"one server":                      {p: at("b.1", 9, "0-1-5"), q: at("b.2", 4, "0-1-7"), before: true},
		"one server, reached":             {p: at("b.2", 9, "0-2-7,1-1-1"), q: at("b.2", 4, "0-1-7"), reaches: true},
		"another server's higher file":    {p: at("b.9", 9, "0-1-5"), q: at("b.1", 4, "0-2-7"), before: true},
		"another server's lower file":     {p: at("b.1", 4, "0-2-7"), q: at("b.9", 9, "0-1-5")},
		"domains in another order":        {p: at("b.2", 9, "0-1-5,1-1-7"), q: at("b.1", 4, "0-1-7,1-1-5"), unknown: true},
		"MySQL, another's higher file":    {p: at("b.9", 9, a+":1-5"), q: at("b.1", 4, a+":1-7,"+b+":1"), before: true},
		"MySQL, reached":                  {p: at("b.9", 9, a+":1-8,"+b+":1-2"), q: at("b.1", 4, a+":1-7,"+b+":1"), reaches: true},
		"MySQL, a gap":                    {p: at("b.9", 9, a+":1-3:5-8"), q: at("b.1", 4, a+":1-7"), unknown: true},
		"MySQL, each has more":            {p: at("b.9", 9, a+":1-8"), q: at("b.1", 4, a+":1-7,"+b+":1"), unknown: true},
		"MySQL and MariaDB, by the files": {p: at("b.9", 9, a+":1-8"), q: at("b.1", 4, "0-1-5"), reaches: true},
	} {
		before, known := tt.p.Before(tt.q)
		if got := tt.p.Reaches(tt.q); got != tt.reaches || before != tt.before || known == tt.unknown {
			t.Errorf("%s: reaches %v, before %v, known %v", name, got, before, known)
		}
	}
}

// TestFollowFailoverStop checks the error for a position of another server without a GTID.
func TestFollowFailoverStop(t *testing.T) {
	_, d, _, tables := testrows.FollowServer(t)
	var stop *binlog.StopError
	if err := d.CheckFollow(t.Context(), tables, elsewhere(binlog.Position{})); !errors.As(err, &stop) || stop.Reason != binlog.StopLogGone {
		t.Error(err)
	}
}
