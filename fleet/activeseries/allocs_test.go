package activeseries

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/taredb/tare/internal/alloctest"
	"github.com/taredb/tare/internal/testactive"
)

func TestAllocs(t *testing.T) {
	const n = 40
	compact := testactive.Body(7, n)
	escaped := bytes.ReplaceAll(bytes.ReplaceAll(compact, []byte("prometheus"), []byte(`\u0070é\n`)), []byte(","), []byte(" ,\n"))
	members := slices.Concat([]byte(`{"status":"success","isPartial":false,"infos":[],`), compact[1:len(compact)-1], []byte(`,"warnings":[],"other":{"a":[1,true,"x"]}}`))
	var pieces piecesReader // splits items like the ends of windows
	drain := func(d Decoder, r *bytes.Reader, body []byte) func() error {
		return func() error {
			r.Reset(body)
			d.Reset(&pieces)
			pieces.r = r
			items := 0
			for {
				_, k, err := d.Next()
				items += k
				if errors.Is(err, io.EOF) && items == n {
					return nil
				}
				if err != nil {
					return err
				}
			}
		}
	}
	seen := newHashSet(1 << 30)
	item := []byte(`{"__name__":"up","job":"a"}`)
	var form canonicalForm
	before := false
	counts := newCounter("job", &budget{allowed: 1 << 20})
	tr := newTracker(t, TrackerOptions{Idle: time.Minute, Matchers: 3})
	for k := range Key(1000) {
		if err := tr.Add(k, 1, []uint16{0, 2}); err != nil {
			t.Fatal(err)
		}
	}
	var at Moment
	perMatcher := make([]int64, 3)
	alloctest.Run(t, []alloctest.Case{
		{Name: "Scanner", Op: drain(new(Scanner), new(bytes.Reader), compact)},
		{Name: "Scanner, escapes and white space", Op: drain(new(Scanner), new(bytes.Reader), escaped)},
		{Name: "Scanner, members without warnings", Op: drain(new(Scanner), new(bytes.Reader), members)},
		{Name: "Labels", Op: func() error {
			labels := 0
			for name, value := range Labels(item) {
				labels += len(name) + len(value)
			}
			if labels != len(item)-5 {
				return errors.New("a label is missing")
			}
			return nil
		}},
		{Name: "hash of an item", Op: func() error {
			if isNew, err := seen.add(seen.hash(item, &form)); err != nil || isNew == before {
				return errors.New("the item is new again")
			}
			before = true
			return nil
		}},
		{Name: "count of an item", Op: func() error { return counts.add(item, true) }},
		{Name: "Tracker.Update", Op: func() error {
			at++
			if !tr.Update(Key(at%1000), at) {
				return errors.New("the series is not known")
			}
			return nil
		}},
		{Name: "Tracker.Add of a live series", Op: func() error { return tr.Add(5, at, []uint16{0, 2}) }},
		{Name: "Tracker.Counts", Op: func() error {
			if tr.Counts(perMatcher) != 1000 || perMatcher[2] != 1000 {
				return errors.New("counts are wrong")
			}
			return nil
		}},
		{Name: "Tracker.Sweep", Op: func() error {
			tr.Sweep(5)
			return nil
		}},
	})
}

// A piecesReader reads at most 700 bytes at a time.
type piecesReader struct{ r io.Reader }

func (p *piecesReader) Read(b []byte) (int, error) { return p.r.Read(b[:min(len(b), 700)]) }

// TestMergeAllocs bounds the objects of a merge by its sources, regardless of their contents.
func TestMergeAllocs(t *testing.T) {
	m := NewMerger(MergerOptions{Workers: 2})
	for _, n := range []int{1, 1000} {
		bodies := testactive.Bodies(16, n)
		readers := make([]bytes.Reader, len(bodies))
		sources := make([]Source, len(bodies))
		got := testing.AllocsPerRun(20, func() {
			for i := range bodies {
				readers[i].Reset(bodies[i])
				sources[i] = Source{Body: nopCloser{&readers[i]}}
			}
			b := m.Merge(sources, Request{})
			if _, err := b.WriteTo(io.Discard); err != nil || b.Stats().Items != int64(16*n) {
				t.Fatal(err, b.Stats())
			}
			if err := b.Close(); err != nil {
				t.Fatal(err)
			}
		})
		if got > 20 {
			t.Errorf("16 bodies of %d items take %v objects, want at most 20", n, got)
		}
	}
}

type nopCloser struct{ *bytes.Reader }

func (nopCloser) Close() error { return nil }

// TestWindowShrinks frees the buffer of a long item after its body, and rejects an item that is too long.
func TestWindowShrinks(t *testing.T) {
	var s Scanner
	for length, fits := range map[int]bool{1 << 20: true, maxItem: true, maxItem + 1: false} {
		item := `{"a":"` + strings.Repeat("x", length-8) + `"}`
		o := decode(t, &s, strings.NewReader(`{"x":"`+strings.Repeat("y", 100_000)+`","data":[{"b":"c"},`+item+`]}`))
		if fits && (!o.accepted() || o.n != 2) {
			t.Errorf("an item of %d bytes: %v", length, o.err)
		}
		var e *Error
		if !fits && (!errors.As(o.err, &e) || e.Fault != Size || o.n != 1) {
			t.Errorf("an item of %d bytes: %v", length, o.err)
		}
		s.Reset(noReader{})
		if len(s.buf) != bufferSize {
			t.Errorf("%d bytes are kept", len(s.buf))
		}
	}
}

// TestDepth compares the maximum depth with encoding/json.
func TestDepth(t *testing.T) {
	for _, depth := range []int{1, 63, 64, 65, 9_999, 10_000} {
		for _, pair := range []string{"[]", "{}"} {
			inside := "1"
			opening := "["
			if pair == "{}" {
				opening = `{"a":`
			}
			body := `{"data":[{}],"x":` + strings.Repeat(opening, depth) + inside + strings.Repeat(pair[1:], depth) + `}`
			check(t, []byte(body), uint64(depth))
		}
	}
}
