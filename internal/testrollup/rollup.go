package testrollup

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/taredb/tare/internal/history/rollup"
	"github.com/taredb/tare/internal/history/stmtstats"
)

// Start is the start of an hour.
func Start() time.Time { return time.Date(2026, 3, 1, 10, 0, 0, 0, time.UTC) }

// Random returns a rollup of an hour with a number of rows, and those of Other and Evicted.
func Random(rng *rand.Rand, start time.Time, rows int) *rollup.Rollup {
	r := &rollup.Rollup{Start: start, Span: rollup.Hour, Last: start.UnixMilli() + 12345, Labels: map[string]string{"instance": "gw-1"}}
	add := func(row rollup.Row) {
		var h stmtstats.Histogram
		for range 1 + rng.IntN(20) {
			h.Record(time.Duration(rng.ExpFloat64() * float64(10*time.Millisecond)))
		}
		row.Counts = stmtstats.Counts{stmtstats.Calls: h.Count(), stmtstats.Nanos: h.Nanos}
		limits := [...]uint64{1 << rng.IntN(40), 9, 1e6}
		for i, name := range countsOfVersion2() {
			n := rng.Uint64N(limits[i])
			if c, ok := stmtstats.ParseCounter(name); ok {
				row.Counts[c] = n
			}
		}
		if rng.IntN(4) == 0 {
			row.Counts[int(stmtstats.Errors)+rng.IntN(stmtstats.ErrorClasses)] = rng.Uint64N(300)
		}
		for _, c := range stmtstats.Effects() { // without drawing from rng, whose values old files have
			if !slices.Contains(countsOfVersion2(), c.String()) {
				row.Counts[c] = h.Nanos % 1000
			}
		}
		row.Spread = h.AppendSpread(nil)
		row.Last = start.UnixMilli() + rng.Int64N(3600_000)
		if rng.IntN(2) == 0 {
			row.First = start.UnixMilli() + rng.Int64N(3600_000)
		}
		r.Rows = append(r.Rows, row)
	}
	for n := range rows {
		k := key(n)
		row := rollup.Row{Print: rollup.PrintOf(&k), Key: k}
		if n%10 != 0 {
			row.Text = fmt.Sprintf("SELECT column_%d FROM %s", n, strings.Repeat("x", rng.IntN(900)))
		}
		add(row)
	}
	add(rollup.Row{Print: rollup.OtherPrint()})
	add(rollup.Row{Print: rollup.EvictedPrint()})
	slices.SortFunc(r.Rows, func(a, b rollup.Row) int { return a.Print.Compare(b.Print) })
	r.Carry = rollup.Carry{Counts: stmtstats.Counts{stmtstats.Calls: 1}, Spread: (&stmtstats.Histogram{Zero: 1}).AppendSpread(nil)}
	return r
}

// countsOfVersion2 are the effects of calls in rollups of version 2.
func countsOfVersion2() []string { return []string{"rows_sent", "rows_affected", "bytes_sent"} }

// Version2 returns the content of a rollup without the counts that version 2 lacks.
func Version2(r *rollup.Rollup) *rollup.Rollup {
	for i := range r.Rows {
		for _, c := range stmtstats.Effects() {
			if !slices.Contains(countsOfVersion2(), c.String()) {
				r.Rows[i].Counts[c] = 0
			}
		}
	}
	return r
}

func checksum(b []byte) uint32 { return crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)) }

func key(n int) stmtstats.Key {
	return stmtstats.Key{Digest: [16]byte{byte(n >> 8), byte(n), 0xaa, byte(n >> 16)}, Schema: "shop", User: []string{"app", "batch"}[n%2], Backend: "db1"}
}

// Encode returns the file of a rollup.
func Encode(t testing.TB, r *rollup.Rollup) []byte {
	t.Helper()
	text, err := r.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// The sizes of a file's header, tail and pages.
const (
	sealHeader = 48
	sealTail   = 16
	sealPage   = 16 << 10
)

// Seal returns the file with correct checksums.
func Seal(text []byte) []byte {
	text = slices.Clone(text)
	if len(text) < sealHeader+sealTail {
		return text
	}
	le := binary.LittleEndian
	le.PutUint32(text[sealHeader-4:], checksum(text[:sealHeader-4]))
	tail := len(text) - sealTail
	footer := tail - int(le.Uint32(text[tail+4:]))
	if footer < sealHeader || footer > tail {
		return text
	}
	at := sealHeader
	named := le.Uint32(text[8:]) > 2
	for b := text[footer:tail]; len(b) >= 12; {
		if named {
			if len(b) < 1+int(b[0])+12 {
				break
			}
			b = b[1+int(b[0]):]
		}
		bytes := int(le.Uint64(b[4:]))
		b = b[12:]
		if bytes < 0 || bytes > footer-at || len(b) < 4*((bytes+sealPage-1)/sealPage) {
			break
		}
		for from := 0; from < bytes; from += sealPage {
			le.PutUint32(b, checksum(text[at+from:at+min(from+sealPage, bytes)]))
			b = b[4:]
		}
		at += bytes
	}
	le.PutUint32(text[tail:], checksum(text[footer:tail]))
	return text
}
