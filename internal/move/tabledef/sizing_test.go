package tabledef

import (
	"testing"
	"time"

	"github.com/taredb/tare/mysql/rowstream"
)

// TestSizing grows chunks to the bytes that are requested, whatever the statistics say, and bounds their time.
func TestSizing(t *testing.T) {
	const target = 16 << 20
	table := func(rowBytes int64) *rowstream.Table { // by the statistics
		return &rowstream.Table{Columns: []rowstream.Column{{Type: "text", FullType: "text"}}, RowsEstimate: 1000, BytesEstimate: 1000 * rowBytes}
	}
	for _, tt := range []struct {
		name              string
		estimate, rowSize int64
		perRow            time.Duration
		kept              int64 // one of as many rows, by a filter
		rows              int64 // in the end; 0: as many as have the bytes
	}{
		{"right", 200, 200, 10 * time.Microsecond, 1, 0},
		{"rows missing from the statistics", 256 << 10, 100, 10 * time.Microsecond, 1, 0},
		{"bytes missing from the statistics", 16, 8000, 10 * time.Microsecond, 1, 0},
		{"slow", 100, 100, time.Millisecond, 1, 5000},
		{"few rows are left by a filter", 200, 200, 10 * time.Microsecond, 1000, 0},
		{"no row is left by a filter", 200, 200, 10 * time.Microsecond, 1 << 30, 0},
	} {
		var s Sizing
		chunks, rows := 0, int64(0)
		for ; chunks < 12; chunks++ {
			rows = s.Next(table(tt.estimate), chunks, target)
			if got := rows * tt.rowSize; got > target*101/100 {
				t.Errorf("%s: chunk %d has %d bytes", tt.name, chunks, got)
			}
			left := rows / tt.kept
			s.Copied(chunks, left, left*tt.rowSize, time.Duration(rows)*tt.perRow)
		}
		want := tt.rows
		if want == 0 {
			want = target / tt.rowSize
		}
		if rows < want*9/10 || rows > want*11/10 {
			t.Errorf("%s: %d rows after %d chunks, want %d", tt.name, rows, chunks, want)
		}
	}
	var s Sizing
	s.Copied(0, 1000, 1000*100, time.Millisecond)
	s.Copied(1, 1000, 1000*100000, time.Millisecond) // rows are larger from here on
	if rows := s.Next(table(100), 2, target); rows > 2*target/100000 {
		t.Errorf("%d rows of 100 kB", rows)
	}
	if s.Copied(3, 0, 0, time.Second); s.Next(table(10), 4, 10) != 1 {
		t.Error("a chunk has no row")
	}
	narrow := table(1 << 20) // by the statistics
	narrow.Columns = []rowstream.Column{{Type: "int", FullType: "int(11)"}, {Type: "varchar", FullType: "varchar(20)"}}
	if rows := new(Sizing).Next(narrow, 0, target); rows < 100_000 || rows*narrow.MaxRowBytes() > target {
		t.Errorf("%d rows of at most %d bytes in the first chunk", rows, narrow.MaxRowBytes())
	}
}

// TestSizingShort has short chunks by the time per row, the time of a chunk without rows, and the size of the table.
func TestSizingShort(t *testing.T) {
	const target, rowSize = 16 << 20, 100
	for _, tt := range []struct {
		name       string
		bytes      int64 // of the table
		chunk, row time.Duration
		want       int64 // bytes
	}{
		{"fast", 1 << 30, 0, 2 * time.Microsecond, 500_000},
		{"slow", 1 << 30, 0, time.Millisecond, leastShortBytes},
		{"slow commits", 1 << 30, time.Second, 10 * time.Microsecond, leastShortBytes},
		{"a large table", 1 << 38, time.Second, 10 * time.Microsecond, 1 << 22},
		{"a huge one", 1 << 44, time.Second, 10 * time.Microsecond, target},
	} {
		table := &rowstream.Table{Columns: []rowstream.Column{{Type: "text", FullType: "text"}}, RowsEstimate: tt.bytes / rowSize, BytesEstimate: tt.bytes}
		s, rows := Sizing{Short: true}, int64(0)
		for chunk := range 16 {
			rows = s.Next(table, chunk, target)
			if chunk == 0 && rows*rowSize > max(leastShortBytes, tt.bytes/mostShortChunks) {
				t.Errorf("%s: the first chunk has %d rows", tt.name, rows)
			}
			s.Copied(chunk, rows, rows*rowSize, tt.chunk+time.Duration(rows)*tt.row)
		}
		if got := rows * rowSize; got < tt.want*9/10 || got > tt.want*11/10 {
			t.Errorf("%s: chunks of %d bytes, want %d", tt.name, got, tt.want)
		}
	}
}
