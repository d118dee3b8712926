package statements

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/taredb/tare/internal/alloctest"
	"github.com/taredb/tare/internal/history/rollup"
	"github.com/taredb/tare/internal/history/stmtstats"
	"github.com/taredb/tare/internal/testrollup"
)

// fuzzFiles returns the valid files that a fuzz test damages.
func fuzzFiles(f *testing.F) [][]byte {
	rng := rand.New(rand.NewPCG(1, 2))
	var files [][]byte
	for _, rows := range []int{0, 1, 5, 60} {
		files = append(files, testrollup.Encode(f, testrollup.Random(rng, testrollup.Start(), rows)))
	}
	plain := testrollup.Random(rng, testrollup.Start(), 5)
	plain.Uncompressed = true
	old, err := os.ReadFile(filepath.Join("..", "rollup", "testdata", "rollup-v2.rollup"))
	if err != nil {
		f.Fatal(err)
	}
	return append(files, testrollup.Encode(f, plain), old)
}

// FuzzRollup damages a valid file: patches are offsets with new bytes, counted from the end if the highest
// bit of the offset is set. Checksums are kept or corrected. Or the patches are the file. A file that is
// accepted must be a rollup: written and read again it has the same content, and a ranking and its details
// match. A file that is rejected must not cause a panic.
func FuzzRollup(f *testing.F) {
	files := fuzzFiles(f)
	patch := func(at int32, bytes ...byte) []byte {
		b := binary.LittleEndian.AppendUint32(nil, uint32(at))
		return append(append(b, byte(len(bytes))), bytes...)
	}
	for n, file := range files {
		f.Add(uint8(n), true, len(file), []byte{})
		f.Add(uint8(n), false, len(file)-1, []byte{})
		f.Add(uint8(n), true, len(file), patch(16, 7))   // rows
		f.Add(uint8(n), true, len(file), patch(48+5, 7)) // in the labels
		f.Add(uint8(n), true, len(file), patch(int32(len(file)/2), 7))
		f.Add(uint8(n), true, len(file), patch(-40, 7)) // in the footer
	}
	f.Add(uint8(len(files)), false, 0, []byte("tareroll"))
	var u rollup.TextDecoder
	f.Cleanup(u.Close)
	f.Fuzz(func(t *testing.T, base uint8, sums bool, size int, patches []byte) {
		defer alloctest.Bounded(t, 64<<20)()
		text := bytes.Clone(patches)
		if n := int(base) % (len(files) + 1); n < len(files) {
			text = bytes.Clone(files[n])
			for len(patches) > 5 {
				at, n := int(int32(binary.LittleEndian.Uint32(patches))), int(patches[4])
				patches = patches[5:]
				n = min(n, len(patches))
				if at < 0 {
					at += len(text)
				}
				if at >= 0 && at < len(text) {
					copy(text[at:], patches[:n])
				}
				patches = patches[n:]
			}
			text = text[:min(max(size, 0), len(text))]
		}
		if sums {
			text = testrollup.Seal(text)
		}
		open := func(text []byte) *rollup.File {
			file, err := rollup.Open(bytes.NewReader(text), int64(len(text)))
			if err != nil {
				return nil
			}
			return file
		}
		file := open(text)
		if file == nil {
			return
		}
		r, err := file.Read(&u)
		by := Measure(base) % Measure(numMeasures)
		q := &TopQuery{By: by, Limit: MaxTopLimit, Filter: []string{"", "-xyzzy", "schema=shop"}[size&0xff%3]}
		ranking := ranking{query: q}
		defer ranking.unzipper.Close()
		ranking.filter, _ = parseFilter(q.Filter)
		rankErr := ranking.run(t.Context(), []*openFile{{open(text), &planned{name: "it"}}})
		var details []*rollup.Detail
		for _, row := range ranking.shown() {
			details = append(details, &rollup.Detail{Print: row.print})
		}
		reader := rollup.NewDetailReader(details)
		defer reader.Close()
		detailErr := reader.Add(open(text))
		if err != nil {
			return // they read less, and may have missed the damage
		}
		if rankErr != nil || detailErr != nil {
			t.Fatalf("read, but not ranked: %v, %v", rankErr, detailErr)
		}
		rows := make(map[rollup.Print]*rollup.Row)
		for i := range r.Rows {
			if row := &r.Rows[i]; !row.Print.IsSum() && ranking.filter.matches(&row.Key, row.Text) {
				rows[row.Print] = row
			}
		}
		if ranking.matching != len(rows) || len(details) != len(rows) {
			t.Fatalf("%d rows match and %d are shown, want %d", ranking.matching, len(details), len(rows))
		}
		for _, d := range details {
			row := rows[d.Print]
			if row == nil || d.Counts != row.Counts || d.Key != row.Key || d.Text != row.Text || d.First != row.First || d.Last != max(row.Last, 0) || !bytes.Equal(d.Durations().AppendSpread(nil), spreadAgain(t, row.Spread)) {
				t.Fatalf("the details are %+v, want %+v", d, row)
			}
		}
		r.Uncompressed = true
		again, err := open(testrollup.Encode(t, r)).Read(&u)
		if err != nil {
			t.Fatalf("what was read cannot be read again: %v", err)
		}
		if again.Uncompressed = true; !reflect.DeepEqual(r, again) {
			t.Fatalf("read again: %+v, first %+v", again, r)
		}
	})
}

// spreadAgain returns a spread with minimal varints; empty if it has no counts.
func spreadAgain(t *testing.T, spread []byte) []byte {
	var h stmtstats.Histogram
	if err := h.AddSpread(spread); err != nil {
		t.Fatal(err)
	}
	return h.AppendSpread(nil)
}
