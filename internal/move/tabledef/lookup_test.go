package tabledef

import (
	"errors"
	"strings"
	"testing"

	"github.com/taredb/tare/internal/testseed"
	"github.com/taredb/tare/mysql/rowstream"
)

// TestLookupRecord records random values: later values extend them if and only if they contain them with the same shards. Records that are
// cut off are rejected, or end before a value.
func TestLookupRecord(t *testing.T) {
	rnd := testseed.Rand(t)
	for range 300 {
		before := &Lookup{Schema: "db", Table: "l", Count: 3, values: &rowstream.Lookup{Name: "db.l"}}
		now := &Lookup{Schema: "db", Table: "l", Count: 3, values: &rowstream.Lookup{Name: "db.l"}}
		extends := true
		for range rnd.IntN(8) {
			value := make([]byte, rnd.IntN(300))
			for i := range value {
				value[i] = byte(rnd.Uint32())
			}
			if rnd.IntN(8) == 0 {
				value = nil
			}
			shard := rnd.IntN(3)
			if before.values.Add(value, shard) != nil { // a second NULL or empty value
				continue
			}
			switch rnd.IntN(12) {
			case 0:
				extends = false // it is removed
			case 1:
				extends, shard = false, (shard+1)%3
				fallthrough
			default:
				if err := now.values.Add(value, shard); err != nil {
					t.Fatal(err)
				}
			}
		}
		_ = now.values.Add([]byte("another one"), 1) // certainly new
		record := before.Record()
		if err := now.Extends(record); (err == nil) != extends || err != nil && !errors.Is(err, ErrLookupChanged) {
			t.Fatalf("extends: %v, %v", extends, err)
		}
		if len(record) > 0 {
			cut := &Lookup{Schema: "db", Table: "l", Count: 3, values: before.values}
			if err := cut.Extends(record[:rnd.IntN(len(record))]); err != nil && !strings.Contains(err.Error(), "are damaged") {
				t.Fatal(err)
			}
		}
	}
}
