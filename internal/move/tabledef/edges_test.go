package tabledef

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/taredb/tare/internal/testmysql"
	"github.com/taredb/tare/internal/testproxy"
	"github.com/taredb/tare/internal/testrows"
	"github.com/taredb/tare/internal/testseed"
	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/rowstream"
)

// TestSizingModel has chunks of random rows and times copied: the sizes of the next ones are those of a model.
func TestSizingModel(t *testing.T) {
	rnd := testseed.Rand(t)
	for range 200 {
		table := &rowstream.Table{Columns: []rowstream.Column{{Name: "id", Type: "int"}, {Name: "c", Type: "longtext"}}, BytesEstimate: rnd.Int64N(1 << 36), RowsEstimate: 1 + rnd.Int64N(1<<20)}
		s := &Sizing{Short: rnd.IntN(2) == 0}
		var rowBytes, rowTime float64
		var most int64
		bytes := int64(1 + rnd.IntN(64<<20))
		asked := make(map[int]int64)
		for number := range 12 {
			each := rowBytes
			if each == 0 {
				each = float64(table.RowBytes())
			}
			want := min(float64(bytes)/max(1, each), float64(max(firstRows, growth*most)))
			least := float64(max(leastShortBytes, table.BytesEstimate/mostShortChunks)) / max(1, each)
			if s.Short {
				limit := least
				if rowTime > 0 {
					limit = max(least, shortChunkTime.Seconds()/rowTime)
				}
				want = min(want, limit)
			} else if rowTime > 0 {
				want = min(want, chunkTime.Seconds()/rowTime)
			}
			asked[number] = max(1, int64(want))
			if got := s.Next(table, number, bytes); got != asked[number] {
				t.Fatalf("chunk %d has %d rows, want %d", number, got, asked[number])
			}
			if rnd.IntN(5) == 0 {
				continue // copied by another worker later, or never
			}
			of, took := number, time.Duration(rnd.Int64N(int64(3*time.Second)))
			if rnd.IntN(6) == 0 {
				of = 100 + number // of an earlier run
			}
			rows := rnd.Int64N(asked[number] + 1)
			long := rows * (1 + rnd.Int64N(3000))
			s.Copied(of, rows, long, took)
			n, ok := asked[of]
			if !ok {
				n = rows
			}
			delete(asked, of)
			if rows > 0 {
				if now := max(1, float64(long)/float64(rows)); rowBytes > 0 {
					rowBytes = (rowBytes + now) / 2
				} else {
					rowBytes = now
				}
			}
			if n > 0 {
				if now := took.Seconds() / float64(n); rowTime > 0 {
					rowTime = (rowTime + now) / 2
				} else {
					rowTime = now
				}
			}
			most = max(most, n)
		}
	}
}

// TestCopiedAt has tables that were copied at a position, at none, and at one that cannot be read.
func TestCopiedAt(t *testing.T) {
	for position, want := range map[string]string{"log.000001 7": "", "log.000001 7 gtid=0-1-5": "", "": "turn on log_bin, and copy again", "x": "position"} {
		table := &Table{Spec: &Spec{Schema: "s", Name: "t"}, State: &Recorded{Position: position}}
		p, err := table.CopiedAt()
		if (err == nil) != (want == "") || err != nil && (!strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "follow the changes of s.t: ")) || err == nil && p.String() != position {
			t.Errorf("%q: %v, %v", position, p, err)
		}
	}
}

// TestLookupRecords records lookup tables, and compares them with later ones: values may be added, and neither removed nor moved. A record that was cut
// is damaged.
func TestLookupRecords(t *testing.T) {
	values := func(shards map[string]int) *rowstream.Lookup {
		l := &rowstream.Lookup{Name: "s.l"}
		for value, shard := range shards {
			text := []byte(value)
			if value == "NULL" {
				text = nil
			}
			if err := l.Add(text, shard); err != nil {
				t.Fatal(err)
			}
		}
		return l
	}
	before := map[string]int{"": 0, "a": 0, "bc": 1, "NULL": 2, strings.Repeat("long", 60): 3}
	l := &Lookup{Schema: "s", Table: "l", Count: 4, values: values(before)}
	record := l.Record()
	if again := (&Lookup{Schema: "s", Table: "l", Count: 4, values: values(before)}).Record(); string(again) != string(record) {
		t.Errorf("%x and %x", record, again)
	}
	for change, want := range map[string]string{"": "", "new 1": "", "a 1": `assigns the value "a" to shard 1`, "NULL 0": "assigns the value NULL to shard 0", "a -1": `no longer has the value "a"`} {
		now := make(map[string]int)
		maps.Copy(now, before)
		if value, shard, ok := strings.Cut(change, " "); ok {
			var n int
			if _, err := fmt.Sscan(shard, &n); err != nil {
				t.Fatal(err)
			}
			if now[value] = n; n < 0 {
				delete(now, value)
			}
		}
		err := (&Lookup{Schema: "s", Table: "l", Count: 4, values: values(now)}).Extends(record)
		if (err == nil) != (want == "") || err != nil && (!strings.Contains(err.Error(), want) || !errors.Is(err, ErrLookupChanged)) {
			t.Errorf("%q: %v", change, err)
		}
	}
	whole := make(map[int]bool) // lengths of records of fewer values
	for at := 0; at <= len(record); {
		whole[at] = true
		if at == len(record) {
			break
		}
		head := int(record[at])
		n := at + 2
		if head >= 0x80 {
			head, n = head&0x7f|int(record[at+1])<<7, at+3
		}
		at = n + max(head-1, 0)
	}
	for n := range len(record) + 1 {
		if err := l.Extends(record[:n:n]); (err == nil) != whole[n] || err != nil && !strings.Contains(err.Error(), "are damaged") {
			t.Errorf("%d bytes of %d: %v", n, len(record), err)
		}
	}
	if err := (&Lookup{Schema: "s", Table: "l", Count: 3, values: l.values}).Extends(record); err == nil || !strings.Contains(err.Error(), "are damaged") {
		t.Errorf("a shard too many: %v", err)
	}
}

// TestLookupFails has the server fail to execute each statement that reads a lookup table, and lookup tables that are unsuitable.
func TestLookupFails(t *testing.T) {
	server := testmysql.Start(t)
	proxy := testproxy.StartFaulty(t, server.Addr)
	c := testrows.Connect(t, testrows.Root(server))
	cfg := testrows.Root(server)
	cfg.Addr, cfg.TLSMode = proxy.Addr, mysqlconn.TLSDisabled
	through := testrows.Connect(t, cfg)
	testrows.Exec(t, c, "CREATE DATABASE s", "CREATE TABLE s.l (v VARCHAR(10) PRIMARY KEY, shard INT)", "INSERT INTO s.l VALUES ('a', 0), ('b', 1)", "CREATE TABLE s.e (v INT PRIMARY KEY, shard INT)",
		"CREATE TABLE s.one (v INT PRIMARY KEY)", "CREATE TABLE s.text (v INT PRIMARY KEY, shard VARCHAR(9))", "CREATE TABLE s.none (v INT PRIMARY KEY, shard INT)", "INSERT INTO s.none VALUES (1, NULL)",
		"CREATE TABLE s.neg (v INT PRIMARY KEY, shard INT)", "INSERT INTO s.neg VALUES (1, -1)", "CREATE TABLE s.big (v INT PRIMARY KEY, shard INT)", "INSERT INTO s.big VALUES (1, 2)")
	l := &Lookup{Schema: "s", Table: "l", Count: 2}
	if err := l.Load(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	proxy.EachFails(t, func() error { return l.Check(t.Context(), through) })
	proxy.EachFails(t, func() error { return (&Lookup{Schema: "s", Table: "l", Count: 2}).Load(t.Context(), through) })
	for table, want := range map[string]string{
		"e": "it is empty", "one": "it has the columns v: a lookup table has two", "text": "a lookup table has two", "none": `it assigns "1" to the shard NULL: there are the shards 0 to 1`, "neg": `to the shard "-1"`, "big": `to the shard "2"`, "absent": "absent",
	} {
		if err := (&Lookup{Schema: "s", Table: table, Count: 2}).Load(t.Context(), c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", table, err, want)
		}
	}
	testrows.Exec(t, c, "DELETE FROM s.l WHERE v = 'a'")
	if err := l.Check(t.Context(), c); !errors.Is(err, ErrLookupChanged) {
		t.Errorf("a value less: %v", err)
	}
}
