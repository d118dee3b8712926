package rollup_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/taredb/tare/internal/history/rollup"
	"github.com/taredb/tare/internal/history/stmtstats"
	"github.com/taredb/tare/internal/testrollup"
)

var errRead = errors.New("broken disk")

// A failingReader is a file of which one read fails.
type failingReader struct {
	text  []byte
	n     int // of the read
	short bool
	reads int
}

func (r *failingReader) ReadAt(b []byte, at int64) (int, error) {
	if r.reads++; r.reads == r.n {
		if r.short {
			return copy(b[:len(b)-1], r.text[at:]), io.EOF
		}
		return 0, errRead
	}
	return bytes.NewReader(r.text).ReadAt(b, at)
}

// TestReadsFail has each read of a file fail, and end too early, in each way to read one: all return the error.
func TestReadsFail(t *testing.T) {
	want := testrollup.Random(rand.New(rand.NewPCG(1, 2)), testrollup.Start(), 300)
	text := testrollup.Encode(t, want)
	for name, op := range map[string]func(f *rollup.File) error{
		"opening": func(*rollup.File) error { return nil },
		"reading": func(f *rollup.File) error {
			var u rollup.TextDecoder
			defer u.Close()
			_, err := f.Read(&u)
			return err
		},
		"totals": func(f *rollup.File) error {
			var all stmtstats.Counts
			var spread stmtstats.Histogram
			return f.AddTotals(&all, &spread)
		},
		"details": func(f *rollup.File) error {
			var details []*rollup.Detail
			for i := 0; i < len(want.Rows); i += 37 {
				details = append(details, &rollup.Detail{Print: want.Rows[i].Print})
			}
			reader := rollup.NewDetailReader(details)
			defer reader.Close()
			defer rollup.Release(details)
			return reader.Add(f)
		},
		"one digest": func(f *rollup.File) error {
			reader := rollup.NewDigestReader(want.Rows[7].Key.Digest)
			defer reader.Close()
			return reader.Read(f, func(*rollup.Detail) {})
		},
		"texts": func(f *rollup.File) error {
			var u rollup.TextDecoder
			defer u.Close()
			r, err := f.Texts(&u, 4096)
			if err != nil {
				return err
			}
			defer r.Release()
			for row := range f.NumRows {
				if _, err := r.Text(row); err != nil {
					return err
				}
			}
			return nil
		},
		"keys": func(f *rollup.File) error {
			r, err := f.Keys(4096)
			if err != nil {
				return err
			}
			defer r.Release()
			for row := range f.NumRows {
				if _, err := r.Key(row); err != nil {
					return err
				}
			}
			return nil
		},
		"spreads": func(f *rollup.File) error {
			r, err := f.Spreads(4096)
			if err != nil {
				return err
			}
			defer r.Release()
			for row := range f.NumRows {
				if _, err := r.Spread(row); err != nil {
					return err
				}
			}
			return nil
		},
	} {
		run := func(at *failingReader) error {
			f, err := rollup.Open(at, int64(len(text)))
			if err != nil {
				return err
			}
			return op(f)
		}
		sound := &failingReader{text: text}
		if err := run(sound); err != nil || sound.reads < 3 {
			t.Errorf("%s: %v after %d reads", name, err, sound.reads)
		}
		for n := range sound.reads {
			if err := run(&failingReader{text: text, n: n + 1}); !errors.Is(err, errRead) {
				t.Errorf("%s, read %d fails: %v", name, n, err)
			}
			var bad *rollup.FormatError
			if err := run(&failingReader{text: text, n: n + 1, short: true}); !errors.As(err, &bad) {
				t.Errorf("%s, read %d ends early: %v", name, n, err)
			}
		}
	}
}

// TestDetails adds up the rows of two files, of which some Keys are in one only, by Key and by digest.
func TestDetails(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	var hours []*rollup.Rollup
	var files []*rollup.File
	for n, rows := range []int{40, 60} {
		r := testrollup.Random(rng, testrollup.Start().Add(time.Duration(n)*time.Hour), rows)
		for i := range r.Rows {
			if row := &r.Rows[i]; row.Text != "" {
				row.Text = fmt.Sprintf("SELECT %x", row.Print) // the same in both
			}
		}
		text := testrollup.Encode(t, r)
		f, err := rollup.Open(bytes.NewReader(text), int64(len(text)))
		if err != nil {
			t.Fatal(err)
		}
		hours, files = append(hours, r), append(files, f)
	}
	// The sums of rows, as the documentation of Detail says.
	sums := make(map[rollup.Print]*rollup.Row)
	for _, r := range hours {
		for i := range r.Rows {
			row := r.Rows[i]
			if s := sums[row.Print]; s != nil {
				s.Counts.Add(&row.Counts)
				if row.First != 0 && (s.First == 0 || row.First < s.First) {
					s.First = row.First
				}
				s.Last = max(s.Last, row.Last)
				if s.Text == "" {
					s.Text = row.Text
				}
			} else {
				sums[row.Print] = &row
			}
		}
	}
	check := func(what string, d *rollup.Detail, want *rollup.Row) {
		t.Helper()
		if d.Counts != want.Counts || d.First != want.First || d.Last != want.Last || d.Key != want.Key || d.Text != want.Text || d.Durations().Count() != want.Counts[stmtstats.Calls] {
			t.Errorf("%s: %+v, want %+v", what, d, want)
		}
	}
	for _, order := range [][]int{{0, 1}, {1, 0}} {
		var details []*rollup.Detail
		for p := range sums {
			details = append(details, &rollup.Detail{Print: p})
		}
		none := &rollup.Detail{Print: rollup.Print{1, 2, 3}}
		first, last := &rollup.Detail{}, &rollup.Detail{Print: rollup.Print(bytes.Repeat([]byte{0xff}, 16))}
		reader := rollup.NewDetailReader(append(details, none, first, last))
		for _, n := range order {
			if err := reader.Add(files[n]); err != nil {
				t.Fatal(err)
			}
		}
		for _, d := range details {
			check(fmt.Sprintf("details in order %d", order), d, sums[d.Print])
		}
		for _, d := range []*rollup.Detail{none, first, last} {
			if _, ok := sums[d.Print]; !ok && (d.Counts != (stmtstats.Counts{}) || d.Spread != nil || d.Durations().Count() != 0) {
				t.Errorf("a Key that is in no file: %+v", d)
			}
		}
		reader.Close()
		rollup.Release(details)
	}
	reader := rollup.NewDetailReader([]*rollup.Detail{{Print: rollup.Print{1}}})
	defer reader.Close()
	if any, err := reader.Find(files[0]); any || err != nil {
		t.Errorf("a Key that is in no file is found: %t, %v", any, err)
	}
	for _, i := range []int{0, 17, len(hours[1].Rows) - 1} {
		row := hours[1].Rows[i]
		reader := rollup.NewDigestReader(row.Key.Digest)
		for n, f := range files {
			var found []*rollup.Detail
			if err := reader.Read(f, func(d *rollup.Detail) { found = append(found, d) }); err != nil {
				t.Fatal(err)
			}
			var want []*rollup.Row
			for k := range hours[n].Rows {
				if r := &hours[n].Rows[k]; r.Key.Digest == row.Key.Digest && !r.Print.IsSum() {
					want = append(want, r)
				}
			}
			if len(found) != len(want) {
				t.Errorf("row %d, file %d: %d rows, want %d", i, n, len(found), len(want))
				continue
			}
			for k := range want {
				if w := *want[k]; w.Text == "" {
					w.Text = found[k].Text // of a file read before
					check(fmt.Sprintf("the digest of row %d, file %d", i, n), found[k], &w)
				} else {
					check(fmt.Sprintf("the digest of row %d, file %d", i, n), found[k], want[k])
				}
			}
		}
		reader.Close()
	}
}
