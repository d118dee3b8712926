package activeseries

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/taredb/tare/internal/testactive"
)

// A countedBody counts calls of Close.
type countedBody struct {
	io.Reader
	closed *atomic.Int64
}

func (c countedBody) Close() error {
	c.closed.Add(1)
	return nil
}

// texts returns sources of JSON bodies.
func texts(closed *atomic.Int64, bodies ...string) []Source {
	list := make([]Source, len(bodies))
	for i, b := range bodies {
		list[i] = Source{Shard: fmt.Sprintf("%d_of_%d", i+1, len(bodies)), Body: countedBody{strings.NewReader(b), closed}}
	}
	return list
}

// merged returns the response to an order by WriteTo, and checks that Read returns nearly the same.
func merged(t *testing.T, workers int, o Request, bodies ...string) (response string, stats Stats, err error) {
	t.Helper()
	for _, way := range []string{"WriteTo", "Read"} {
		var closed atomic.Int64
		b := NewMerger(MergerOptions{Workers: workers}).Merge(texts(&closed, bodies...), o)
		var out bytes.Buffer
		if way == "Read" {
			if _, rerr := io.Copy(&out, struct{ io.Reader }{b}); rerr != nil {
				t.Fatal(rerr)
			}
			err = b.failure()
		} else {
			var n int64
			n, err = b.WriteTo(&out)
			if n != int64(out.Len()) {
				t.Fatalf("WriteTo returns %d, wrote %d", n, out.Len())
			}
		}
		stats = b.Stats()
		if cerr := b.Close(); cerr != nil {
			t.Fatal(cerr)
		}
		if closed.Load() != int64(len(bodies)) {
			t.Fatalf("%s: %d of %d bodies were closed", way, closed.Load(), len(bodies))
		}
		if o.Failed == nil && !json.Valid(out.Bytes()) {
			t.Fatalf("%s: the answer is no JSON: %s", way, out.Bytes())
		}
		if stats.Bytes != int64(out.Len()) {
			t.Fatalf("%s: %d bytes counted, %d written", way, stats.Bytes, out.Len())
		}
		if response != "" && workers == 1 && response != out.String() {
			t.Fatalf("WriteTo and Read differ:\n%s\n%s", response, out.String())
		}
		response = out.String()
	}
	return response, stats, err
}

func TestMerge(t *testing.T) {
	for _, c := range []struct {
		name   string
		order  Request
		bodies []string
		want   string
	}{
		{"none", Request{}, nil, `{"data":[]}`},
		{"empty ones", Request{}, []string{`{"data":[]}`, `{"data":null}`}, `{"data":[]}`},
		{
			"other members, white space",
			Request{},
			[]string{`{"data":[ {"a" : "1"}, {"a":"2"} ]}`, `{"x":{},"data":[],"y":[]}`, `{"data":[{"b":"3"}]}`},
			`{"data":[{"a" : "1"},{"a":"2"},{"b":"3"}]}`,
		},
		{
			"limit",
			Request{Limit: 2},
			[]string{`{"data":[{"a":"1"}]}`, `{"data":[{"a":"2"},{"a":"3"}]}`, `{"data":[{"a":"4"}]}`},
			`{"data":[{"a":"1"},{"a":"2"}],"warnings":["cut to the limit of 2"]}`,
		},
		{"limit not reached", Request{Limit: 2}, []string{`{"data":[{"a":"1"}]}`, `{"data":[{"a":"2"}]}`}, `{"data":[{"a":"1"},{"a":"2"}]}`},
		{
			"unique",
			Request{Unique: true, UniqueBytes: 1 << 20},
			[]string{`{"data":[{"a":"1","b":"2"},{"a":"2"},{"b":"1","a":"2"}]}`, `{"data":[{"b":"2","a":"\u0031"},{"a":"2"},{"a":"3"},{}]}`},
			`{"data":[{"a":"1","b":"2"},{"a":"2"},{"b":"1","a":"2"},{"a":"3"},{}]}`,
		},
		{
			"count",
			Request{CountBy: "job", CountBytes: 1 << 10},
			[]string{`{"data":[{"job":"x","a":"1"},{"job":"x","a":"2"},{"a":"3"}]}`, `{"data":[{"\u006aob":"\"\n\u00e9"},{"job":"x","__count__":"40"},{"job":"y","__count__":"-1"}]}`},
			`{"data":[{"job":"x","__count__":"3"},{"job":"","__count__":"1"},{"job":"\"\u000aé","__count__":"1"},{"job":"y","__count__":"1"}]}`,
		},
		{
			"largest counts",
			Request{CountBy: "job", CountBytes: 1 << 10, Limit: 1},
			[]string{`{"data":[{"job":"x"}]}`, `{"data":[{"job":"y"},{"job":"y"}]}`},
			`{"data":[{"job":"y","__count__":"2"}],"warnings":["cut to the limit of 1"]}`,
		},
		{
			"counts of unique",
			Request{Unique: true, UniqueBytes: 1 << 20, CountBy: "job", CountBytes: 1 << 10},
			[]string{`{"data":[{"job":"x"}]}`, `{"data":[{"job":"x"}]}`},
			`{"data":[{"job":"x","__count__":"1"}]}`,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, by := range []Implementation{Strict, Stdlib} {
				c.order.Decoder = by
				got, _, err := merged(t, 1, c.order, c.bodies...)
				if err != nil {
					t.Error(err)
				}
				if got = strings.ReplaceAll(got, ", {", ",{"); got != c.want { // one body has white space between items
					t.Errorf("%s: got\n%s\nwant\n%s", by, got, c.want)
				}
			}
		})
	}
}

// TestMergeErrors expects the response and the error to describe the fault and its position.
func TestMergeErrors(t *testing.T) {
	right := `{"data":[{"a":"1"}]}`
	for _, c := range []struct {
		name   string
		order  Request
		bodies []string
		want   string
		text   string
	}{
		{
			"truncated",
			Request{},
			[]string{right, `{"data":[{"a":"2"},{"a":`},
			`{"data":[{"a":"1"},{"a":"2"}],"status":"error","error":"shard 2_of_2 at byte 24: the body ends here, incomplete"}`,
			"shard 2_of_2 at byte 24: the body ends here, incomplete",
		},
		{
			"reported",
			Request{},
			[]string{right, `{"data":[{"a":"2"}],"status":"error","errorType":"internal","error":"a \"quoted\" text"}`},
			`{"data":[{"a":"1"},{"a":"2"}],"status":"error","error":"shard 2_of_2 reports: internal: a \"quoted\" text"}`,
			`shard 2_of_2 reports: internal: a "quoted" text`,
		},
		{
			"too many different",
			Request{Unique: true, UniqueBytes: 8},
			[]string{right},
			`{"data":[],"status":"error","error":"duplicates need more than the 8 bytes allowed"}`,
			"duplicates need more than the 8 bytes allowed",
		},
		{
			"too many values",
			Request{CountBy: "a", CountBytes: 100},
			[]string{right, `{"data":[{"a":"2"}]}`},
			`{"data":[],"status":"error","error":"counts need more than the 100 bytes allowed"}`,
			"counts need more than the 100 bytes allowed",
		},
		{
			"too long",
			Request{MaxBytes: 30},
			[]string{right, right, right},
			`{"data":[{"a":"1"},{"a":"1"}],"status":"error","error":"response need more than the 30 bytes allowed"}`,
			"response need more than the 30 bytes allowed",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			stops := 0
			c.order.Stop = func() { stops++ }
			got, _, err := merged(t, 1, c.order, c.bodies...)
			if errText(err) != c.text {
				t.Errorf("error is\n%v, want\n%s", err, c.text)
			}
			if got != c.want {
				t.Errorf("got\n%s\nwant\n%s", got, c.want)
			}
			if stops != 2 { // one per response
				t.Errorf("Stop was called %d times in 2 answers", stops)
			}
			c.order.Failed = func(error) bool { return true }
			if got, _, _ = merged(t, 1, c.order, c.bodies...); !strings.HasPrefix(c.want, got+"]") {
				t.Errorf("the answer does not end with the items though the caller tells of the error: %s", got)
			}
		})
	}
}

// itemSet counts the items of a response.
func itemSet(t *testing.T, response []byte) map[string]int {
	t.Helper()
	set := map[string]int{}
	o := decode(t, new(Scanner), bytes.NewReader(response))
	if !o.accepted() {
		t.Fatal(o.err)
	}
	for item := range Items(o.items) {
		set[string(item)]++
	}
	return set
}

// TestMergeLarge merges large bodies with several workers, some of them with other escapes, and compares with
// the items that encoding/json decodes.
func TestMergeLarge(t *testing.T) {
	const shards, n = 3, 1000
	want := map[string]int{}
	for i := range shards {
		maps.Copy(want, itemSet(t, testactive.Body(i, n)))
	}
	m := NewMerger(MergerOptions{Workers: 4})
	for _, o := range []Request{{}, {Unique: true, UniqueBytes: 1 << 20}, {Decoder: Stdlib}} {
		t.Run(fmt.Sprintf("%s, unique=%t", o.Decoder, o.Unique), func(t *testing.T) {
			var sources []Source
			for i := range 2 * shards {
				sources = append(sources, Source{Body: io.NopCloser(bytes.NewReader(testactive.Body(i%shards, n)))})
			}
			var mu sync.Mutex
			items := int64(0)
			for i := range sources {
				sources[i].Done = func(n, _ int64, err error) {
					mu.Lock()
					defer mu.Unlock()
					if items += n; err != nil {
						t.Error(err)
					}
				}
			}
			b := m.Merge(sources, o)
			var response bytes.Buffer
			if _, err := b.WriteTo(&response); err != nil {
				t.Fatal(err)
			}
			if items != 2*shards*n {
				t.Errorf("sources had %d items, want %d", items, 2*shards*n)
			}
			times := 2
			if o.Unique {
				times = 1
			}
			if s := b.Stats(); s.Items != int64(times*shards*n) || s.Items+s.Duplicates != items {
				t.Errorf("stats are %+v", s)
			}
			got := itemSet(t, response.Bytes())
			for item := range want {
				want[item] = times
			}
			if !maps.Equal(got, want) {
				t.Errorf("the answer has other items: %d different ones, want %d", len(got), len(want))
			}
		})
	}
}

func jsonSources(bodies ...[]byte) []Source {
	list := make([]Source, len(bodies))
	for i, b := range bodies {
		list[i] = Source{Shard: fmt.Sprint(i), Body: io.NopCloser(bytes.NewReader(b))}
	}
	return list
}

// TestReopen replaces a body that fails before its first item was written, once, and not later.
func TestReopen(t *testing.T) {
	died := errors.New("connection reset")
	opened := 0
	source := func(before string) Source {
		return Source{
			Shard: "1_of_1",
			Body:  io.NopCloser(io.MultiReader(strings.NewReader(before), brokenReader{died})),
			Reopen: func(why error) (io.ReadCloser, error) {
				if !errors.Is(why, died) {
					t.Errorf("reopened because of %v", why)
				}
				opened++
				return io.NopCloser(strings.NewReader(`{"data":[{"a":"2"}]}`)), nil
			},
		}
	}
	m := NewMerger(MergerOptions{Workers: 1})
	for _, c := range []struct {
		before, want string
		opened       int
	}{
		{`{"data":[{"a":`, `{"data":[{"a":"2"}]}`, 1},
		{`{"data":[{"a":"1"},`, `{"data":[{"a":"1"}],"status":"error","error":"shard 1_of_1 at byte 19: read the body: connection reset"}`, 0},
	} {
		opened = 0
		var out strings.Builder
		_, err := m.Merge([]Source{source(c.before)}, Request{}).WriteTo(&out)
		if out.String() != c.want || opened != c.opened || (err == nil) != (opened == 1) {
			t.Errorf("after %q: opened %d times, error %v, answer\n%s\nwant\n%s", c.before, opened, err, out.String(), c.want)
		}
	}
}

type brokenReader struct{ err error }

func (b brokenReader) Read([]byte) (int, error) { return 0, b.err }

// TestLostWriter expects reading to stop when the writer fails.
func TestLostWriter(t *testing.T) {
	gone := errors.New("the client is gone")
	var closed atomic.Int64
	var bodies []string
	for _, b := range testactive.Bodies(6, 5000) {
		bodies = append(bodies, string(b))
	}
	stops := atomic.Int64{}
	b := NewMerger(MergerOptions{Workers: 3}).Merge(texts(&closed, bodies...), Request{Stop: func() { stops.Add(1) }})
	_, err := b.WriteTo(&failingWriter{left: 200_000, err: gone})
	if !errors.Is(err, gone) || !errors.Is(b.failure(), gone) {
		t.Errorf("got error %v", err)
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}
	if closed.Load() != 6 || stops.Load() != 1 {
		t.Errorf("%d bodies were closed, want 6; Stop was called %d times, want 1", closed.Load(), stops.Load())
	}
	if _, err := b.WriteTo(io.Discard); !errors.Is(err, ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}

// TestShortWriter expects an error if the writer takes fewer bytes than it is given, without an error itself, and errors of closing.
func TestShortWriter(t *testing.T) {
	gone := errors.New("not closed")
	for i, failing := range []bool{false, true} {
		b := NewMerger(MergerOptions{Workers: 1}).Merge([]Source{{Shard: "1", Body: failingBody{strings.NewReader(`{"data":[]}`), gone}}}, Request{})
		if !failing {
			if n, err := b.WriteTo(writerFunc(func(p []byte) (int, error) { return len(p) - 1, nil })); !errors.Is(err, io.ErrShortWrite) || n == 0 {
				t.Errorf("%d bytes, %v", n, err)
			}
		}
		if err := b.Close(); i == 1 && !errors.Is(err, gone) {
			t.Errorf("a body that cannot be closed: %v", err)
		}
		if err := b.Close(); err != nil {
			t.Errorf("closed twice: %v", err)
		}
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// A failingBody cannot be closed.
type failingBody struct {
	io.Reader
	err error
}

func (f failingBody) Close() error { return f.err }

// TestHashSet keeps hashes in each of its segments within its bytes: each doubling counts the slots that it replaces, too.
func TestHashSet(t *testing.T) {
	s := hashSet{allowed: 16 * 128 * 8}
	added := uint64(0)
	for i := uint64(1); i <= 96; i++ { // three quarters of 128 slots
		for segment := range uint64(16) {
			h := segment<<60 | i
			for _, fresh := range []bool{true, false} {
				got, err := s.add(h)
				if _, full := errors.AsType[*BudgetError](err); full {
					if i < 48 { // three quarters of 64 slots, which all segments have room for
						t.Fatalf("%d in each segment: %v", i, err)
					}
					continue
				}
				if err != nil || got != fresh {
					t.Fatalf("%x: %v (%v), want %v", h, got, err, fresh)
				}
				added++
			}
		}
	}
	if s.used > s.allowed || added < 2*47*16 {
		t.Errorf("%d of %d bytes, %d added", s.used, s.allowed, added/2)
	}
}

type failingWriter struct {
	left int
	err  error
}

func (f *failingWriter) Write(p []byte) (int, error) {
	if len(p) > f.left {
		return f.left, f.err
	}
	f.left -= len(p)
	return len(p), nil
}

// TestCompare expects a report for each body on which the decoders disagree, and for no others.
func TestCompare(t *testing.T) {
	var notified []Difference
	o := Request{Compare: func(d Difference) { notified = append(notified, d) }}
	for _, text := range bodies(t) {
		if _, _, err := merged(t, 1, o, text); errors.Is(err, io.EOF) {
			t.Fatal("an error that is none")
		}
	}
	if len(notified) > 0 {
		t.Errorf("told of %v", notified)
	}
	c := newComparison(&o, &Source{Shard: "7"})
	c.other = liar{c.other}
	decode(t, c, bytes.NewReader(testactive.Body(1, 2000)))
	if len(notified) != 1 || notified[0].Items != 2000 || notified[0].OtherItems != 0 || notified[0].OtherErr == nil || notified[0].SameBytes {
		t.Errorf("told of %v", notified)
	}
	c.Reset(bytes.NewReader(testactive.Body(1, 2000)))
	c.close() // ends the goroutine of a body that is not read
}

// A liar is a decoder that rejects everything.
type liar struct{ Decoder }

func (liar) Next() ([]byte, int, error) { return nil, 0, &Error{Fault: Syntax, Detail: "a lie"} }

// TestIdleBytes expects a decoder's buffer to be kept after a response, at most two per worker.
func TestIdleBytes(t *testing.T) {
	m := NewMerger(MergerOptions{Workers: 1})
	if n := m.IdleBytes(); n != 0 {
		t.Errorf("%d bytes before any answer", n)
	}
	for range 3 {
		var closed atomic.Int64
		b := m.Merge(texts(&closed, `{"data":[{"a":"b"}]}`, `{"data":[]}`), Request{})
		if _, err := b.WriteTo(io.Discard); err != nil {
			t.Fatal(err)
		}
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
		if n := m.IdleBytes(); n < bufferSize || n > 2*bufferSize {
			t.Errorf("%d bytes after an answer", n)
		}
	}
}
