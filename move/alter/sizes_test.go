package alter

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/taredb/tare/internal/move/telemetry"
	"github.com/taredb/tare/mysql/rowstream"
)

// TestStaleStatistics alters tables by copies whose statistics are wrong by a factor of some hundreds: chunks have about the bytes that are requested.
func TestStaleStatistics(t *testing.T) {
	const rows, rowBytes, chunkBytes = 6000, 500, 256 << 10
	statistics := map[string]map[string]string{
		"MariaDB": {"small": ""}, // that of an empty table, which counts rows and not their bytes
		"MySQL":   {"small": "", "many": "n_rows = 6000000, clustered_index_size = 2", "few": "n_rows = 6, clustered_index_size = 6000"},
	}
	onBoth(t, func(t *testing.T, d *database) {
		for table, statistics := range statistics[d.product] {
			d.exec("CREATE TABLE "+d.schema+"."+table+" (id INT PRIMARY KEY, small SMALLINT, body TEXT) STATS_PERSISTENT=1 STATS_AUTO_RECALC=0", "ANALYZE TABLE "+d.schema+"."+table)
			values := make([]string, rows)
			for i := range values {
				values[i] = fmt.Sprintf("(%d, 1, REPEAT('x', %d))", i*30, rowBytes)
			}
			d.exec("INSERT INTO " + d.schema + "." + table + " VALUES " + strings.Join(values, ", "))
			if statistics != "" {
				d.exec("UPDATE mysql.innodb_table_stats SET "+statistics+" WHERE database_name = '"+d.schema+"' AND table_name = '"+table+"'", "FLUSH TABLES "+d.schema+"."+table)
			}
			is, err := rowstream.ReadTable(t.Context(), d.connect(), d.schema, table)
			if err != nil {
				t.Fatal(err)
			}
			if n := is.RowBytes(); n > rowBytes/10 && n < rowBytes*10 {
				t.Fatalf("%s: a row has %d bytes by the statistics", table, n)
			}
			o := d.options(table, "MODIFY small INT")
			o.AlwaysCopy, o.ChunkBytes, o.Workers = true, chunkBytes, 2
			var mu sync.Mutex
			chunks, corrected, most := 0, 0, int64(0)
			o.Observe = func(e telemetry.Event) {
				if e.Kind == telemetry.EventChunk {
					mu.Lock()
					chunks, most = chunks+1, max(most, e.Bytes)
					if p := e.Progress; p.RowsDeviation != nil {
						corrected++
						if max(p.RowsEstimate-rows, rows-p.RowsEstimate) > max(*p.RowsDeviation, rows/50) || *p.RowsDeviation > rows/2 {
							t.Errorf("%s: %s", table, p.Text())
						}
					}
					mu.Unlock()
				}
			}
			if _, err := Run(t.Context(), o); err != nil {
				t.Fatal(err)
			}
			if corrected < chunks/3 {
				t.Errorf("%s: the estimate is corrected after %d of %d chunks alone", table, corrected, chunks)
			}
			if most > chunkBytes*5/4 || most < chunkBytes/2 || chunks > 24 { // 12 of the full size, and some small ones first
				t.Errorf("%s: %d chunks of at most %d bytes, want %d", table, chunks, most, chunkBytes)
			}
		}
	})
}

// TestCachedStatistics has MySQL cache the statistics of an empty table, as it does for a day: they are not used.
func TestCachedStatistics(t *testing.T) {
	t.Parallel()
	d := newDatabase(t, "MySQL")
	d.exec("CREATE TABLE " + d.schema + ".t (id INT AUTO_INCREMENT PRIMARY KEY)")
	c := d.connectTo(d.schema)
	cached := func() string {
		if err := d.execOn(c, "SET SESSION information_schema_stats_expiry = 86400"); err != nil {
			t.Fatal(err)
		}
		return d.value(c, "SELECT TABLE_ROWS FROM information_schema.TABLES WHERE TABLE_SCHEMA = '"+d.schema+"' AND TABLE_NAME = 't'")
	}
	if n := cached(); n != "0" {
		t.Fatalf("%s rows are cached", n)
	}
	d.exec("INSERT INTO " + d.schema + ".t VALUES (1)")
	for range 12 {
		d.exec("INSERT INTO " + d.schema + ".t (id) SELECT NULL FROM " + d.schema + ".t")
	}
	if n := cached(); n != "0" {
		t.Fatalf("the cache of the server has %s rows", n)
	}
	p, err := Lint(t.Context(), d.options("t", "ADD COLUMN a INT"))
	if err != nil {
		t.Fatal(err)
	}
	if p.Rows < 1000 || p.Rows > 20_000 { // 4,096
		t.Errorf("%d rows by the statistics", p.Rows)
	}
}
