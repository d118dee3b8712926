package activeseries

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"
)

// TestCutBodies ends bodies after each byte, and has the reader fail there: both decoders report the fault, with the reader's error.
func TestCutBodies(t *testing.T) {
	const list = `{"a":"b"} , {"c":"d\u0041é","e":"f"}`
	lost := errors.New("the connection is lost")
	for name, c := range map[string]struct {
		body     []byte
		reported bool
	}{
		"JSON":         {[]byte(` { "status" : "success" , "x" : [ 1.5e3 , { "y" : [ ] , "z" : { } } , null ] , "data" : [ ` + list + ` ] , "warnings" : [ "w" ] }`), false},
		"a JSON error": {[]byte(`{"data":[` + list + `],"status":"error","errorType":"t","error":"boom"}`), true},
	} {
		for _, by := range []Implementation{Strict, Stdlib} {
			whole := decode(t, NewDecoder(by), bytes.NewReader(c.body))
			if _, reported := errors.AsType[*ReportedError](whole.err); reported != c.reported || !reported && whole.err != nil && whole.err != io.EOF { //nolint:errorlint // as Decoder says
				t.Errorf("%s by %s: %v", name, by, whole.err)
			}
			for n := range c.body {
				var e *Error
				if o := decode(t, NewDecoder(by), bytes.NewReader(c.body[:n])); !errors.As(o.err, &e) || e.Fault != Truncated || e.Offset > int64(n) {
					t.Errorf("%s by %s, cut after %d bytes: %v", name, by, n, o.err)
				}
				if o := decode(t, NewDecoder(by), io.MultiReader(bytes.NewReader(c.body[:n]), iotest.ErrReader(lost))); !errors.As(o.err, &e) || e.Fault != Reading || !errors.Is(o.err, lost) {
					t.Errorf("%s by %s, the reader fails after %d bytes: %v", name, by, n, o.err)
				}
			}
			if o := decode(t, NewDecoder(by), io.MultiReader(bytes.NewReader(c.body), iotest.ErrReader(lost))); !errors.Is(o.err, lost) {
				t.Errorf("%s by %s, the reader fails at the end: %v", name, by, o.err)
			}
			if o := decode(t, NewDecoder(by), iotest.OneByteReader(bytes.NewReader(c.body))); string(o.items) != string(whole.items) || (o.err == nil) != (whole.err == nil) {
				t.Errorf("%s by %s, a byte at a time: %v", name, by, o.err)
			}
		}
	}
}

// TestErrorTexts has the shard, the position and the cause of errors, once they are known.
func TestErrorTexts(t *testing.T) {
	for want, err := range map[string]error{
		"at byte 7: wrong":                          &Error{Offset: 7, Detail: "wrong"},
		"shard 1_of_2 at byte 7: wrong":             nameShard(&Error{Offset: 7, Detail: "wrong"}, "1_of_2"),
		"shard 2 at byte 0: read: EOF":              nameShard(&Error{Detail: "read", Err: io.EOF, Shard: "2"}, "3"),
		"reported: boom":                            &ReportedError{Text: "boom"},
		"reported: t: boom":                         &ReportedError{Type: "t", Text: "boom"},
		"shard 1 reports: t: boom":                  nameShard(&ReportedError{Type: "t", Text: "boom"}, "1"),
		"shard 2 reports: boom":                     nameShard(&ReportedError{Text: "boom", Shard: "2"}, "1"),
		"EOF":                                       nameShard(io.EOF, "1"),
		"counts need more than the 5 bytes allowed": &BudgetError{What: "counts", Allowed: 5},
	} {
		if err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
	names := make(map[string]bool)
	for f := Truncated; f <= Reading; f++ {
		if s := f.String(); strings.Contains(s, "fault") {
			t.Errorf("a fault is called %s", s)
		} else {
			names[s] = true
		}
	}
	if len(names) != 7 || Fault(0).String() != "fault 0" || (Reading+1).String() != "fault 8" {
		t.Errorf("names %v", names)
	}
	d := Difference{Shard: "7", By: Strict, Items: 3, OtherItems: 4, OtherErr: io.EOF, SameBytes: true}
	if got := d.String(); !strings.Contains(got, "shard 7") || !strings.Contains(got, "3 items") || !strings.Contains(got, "4 and EOF") {
		t.Error(got)
	}
	a, b := &ReportedError{Type: "t", Text: "x"}, &ReportedError{Type: "t", Text: "y"}
	for _, c := range []struct {
		a, b error
		want bool
	}{
		{nil, nil, true},
		{io.EOF, nil, false},
		{nil, io.EOF, false},
		{io.EOF, io.ErrClosedPipe, true},
		{a, a, true},
		{a, b, false},
		{a, nil, false},
		{io.EOF, a, false},
		{a, &ReportedError{Type: "u", Text: "x"}, false},
		{a, &ReportedError{Type: "t", Text: "x", Shard: "1"}, true},
	} {
		if got := sameFailure(c.a, c.b); got != c.want {
			t.Errorf("%v and %v: %v", c.a, c.b, got)
		}
	}
}

// TestCounts counts items by a label, merges the counts of workers and returns the largest.
func TestCounts(t *testing.T) {
	for text, want := range map[string]int64{
		"": -1, "0": 0, "7": 7, "007": 7, "999999999999999999": 999999999999999999, "1000000000000000000": -1, "-1": -1, "1x": -1, "x": -1, " 1": -1,
	} {
		n, ok := parseCount([]byte(text))
		if !ok {
			n = -1
		}
		if n != want {
			t.Errorf("%q is %d, want %d", text, n, want)
		}
	}
	for _, c := range [][3]int64{{1, 2, 3}, {math.MaxInt64, 0, math.MaxInt64}, {math.MaxInt64 - 1, 1, math.MaxInt64}, {math.MaxInt64, 1, math.MaxInt64}} {
		if got := saturatingAdd(c[0], c[1]); got != c[2] {
			t.Errorf("%d + %d is %d", c[0], c[1], got)
		}
	}
	b := &budget{what: "counts", allowed: 3*countBytes + 4}
	one, two := newCounter("job", b), newCounter("job", b)
	add := func(c *counter, item string, counts bool) error { return c.add([]byte(item), counts) }
	for _, err := range []error{
		add(one, `{"job":"a"}`, false), add(one, `{"x":"y","job":"a","`+CountLabel+`":"5"}`, false), add(one, `{"x":"y"}`, false),
		add(two, `{"job":"a","`+CountLabel+`":"5"}`, true), add(two, `{"job":"a","`+CountLabel+`":"x"}`, true),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	one.merge(two)
	got := func(limit int) (text string) {
		for _, v := range one.largest(limit) {
			text += fmt.Sprintf("%s=%d ", v.value, v.count)
		}
		return text
	}
	if got(0) != "a=8 =1 " || got(1) != "a=8 " || got(2) != got(0) || two.values != nil || b.used.Load() != 2*countBytes+1 {
		t.Errorf("%s, %d bytes", got(0), b.used.Load())
	}
	if err := add(one, `{"job":"\u0062cd"}`, false); err != nil || got(0) != "a=8 =1 bcd=1 " {
		t.Errorf("%s (%v)", got(0), err)
	}
	if err := add(one, `{"job":"e"}`, false); err == nil {
		t.Error("more counts than the budget has")
	}
	empty, full := newCounter("job", b), newCounter("job", &budget{allowed: 1 << 20})
	if err := add(full, `{"job":"z"}`, false); err != nil {
		t.Fatal(err)
	}
	if empty.merge(full); len(empty.values) != 1 || full.values != nil {
		t.Errorf("%v, %v", empty.values, full.values)
	}
	if item := string(valueCount{"a\"\xff", 7}.appendItem(nil, "job")); item != `,{"job":"a\"�","`+CountLabel+`":"7"}` {
		t.Error(item)
	}
}

// TestItems visits items and labels, and stops early; AppendItem writes what Labels reads.
func TestItems(t *testing.T) {
	labels := map[string]string{"a": "b", "long name with \"quotes\" and \\": "value with } and { and , and more than eight bytes", "é": "\x01\xff"}
	item := AppendItem([]byte("x"), maps.All(labels))
	if item[0] != 'x' || item[1] != '{' {
		t.Fatalf("%s", item)
	}
	got := make(map[string]string)
	for name, value := range Labels(item[1:]) {
		got[string(unescaped(name))] = string(unescaped(value))
	}
	labels["é"] = "\x01\ufffd"
	if !maps.Equal(got, labels) {
		t.Errorf("%q, want %q", got, labels)
	}
	if empty := string(AppendItem(nil, maps.All(map[string]string{}))); empty != "{}" {
		t.Error(empty)
	}
	list := `,{"a":"}"} , {} ,{"b":"\"{"}`
	var items []string
	for item := range Items([]byte(list)) {
		items = append(items, string(item))
	}
	if want := []string{`{"a":"}"}`, `{}`, `{"b":"\"{"}`}; !slices.Equal(items, want) {
		t.Errorf("%q", items)
	}
	for range Items([]byte(list)) {
		break
	}
	for range Labels([]byte(`{"a":"b","c":"d"}`)) {
		break
	}
}

// TestValidPrefix splits text after the last whole code point.
func TestValidPrefix(t *testing.T) {
	for text, want := range map[string]int{
		"": 0, "a": 1, "é": 2, "a\xc3": 1, "a\xe2\x82": 1, "a\xf0\x9f\x98": 1, "a\xf0\x9f\x98\x80": 5, "\xff": 0, "a\xffb": 1, "é\xff\xc3": 2, "\x80": 0, "aaaa\x80": 4,
		"a\xf0\x9f\x98\x80\xc3": 5, "a\xff\xff\xff\xff\xff": 1,
	} {
		if got := validPrefix([]byte(text)); got != want {
			t.Errorf("%q: %d, want %d", text, got, want)
		}
	}
}

// TestTrackerOptions takes options at their bounds.
func TestTrackerOptions(t *testing.T) {
	for _, c := range []struct {
		o  TrackerOptions
		ok bool
	}{
		{TrackerOptions{Idle: 1}, true},
		{TrackerOptions{Idle: 0}, false},
		{TrackerOptions{Idle: time.Minute, Step: time.Minute}, true},
		{TrackerOptions{Idle: time.Minute, Step: 20 * time.Second}, true},
		{TrackerOptions{Idle: time.Minute, Step: -1}, false},
		{TrackerOptions{Idle: time.Minute, Step: 2 * time.Minute}, false},
		{TrackerOptions{Idle: 1, Matchers: 1<<16 - 1}, true},
		{TrackerOptions{Idle: 1, Matchers: 1 << 16}, false},
		{TrackerOptions{Idle: 1, Stripes: 1}, true},
		{TrackerOptions{Idle: 1, Stripes: 1 << 16}, true},
		{TrackerOptions{Idle: 1, Stripes: 1 << 17}, false},
		{TrackerOptions{Idle: 1, Stripes: 6}, false},
	} {
		if err := c.o.validate(); (err == nil) != c.ok {
			t.Errorf("%+v: %v", c.o, err)
		}
	}
}

// TestSkippedDepth skips values of other members that are nested up to the bound, and refuses deeper ones, in both decoders alike.
func TestSkippedDepth(t *testing.T) {
	nested := func(n int, open, end string) string {
		return `{"x":` + strings.Repeat(open, n) + strings.Repeat(end, n) + `,"data":[]}`
	}
	for _, c := range [][2]string{{"[", "]"}, {`{"a":`, "}"}} {
		deepest := [2]int{}
		for i, by := range []Implementation{Strict, Stdlib} {
			for n := maxDepth - 5; n <= maxDepth+5; n++ {
				body := nested(n, c[0], c[1])
				if c[0] != "[" {
					body = `{"x":` + strings.Repeat(c[0], n) + "1" + strings.Repeat(c[1], n) + `,"data":[]}`
				}
				o := decode(t, NewDecoder(by), strings.NewReader(body))
				if o.accepted() {
					deepest[i] = n
					continue
				}
				if e, ok := errors.AsType[*Error](o.err); !ok || e.Fault != Depth {
					t.Errorf("%d levels of %s by %s: %v", n, c[0], by, o.err)
				}
			}
		}
		if deepest[0] != deepest[1] || deepest[0] == 0 || deepest[0] > maxDepth {
			t.Errorf("%s is skipped up to %v levels", c[0], deepest)
		}
	}
}

// TestReadAfterClose returns an error of a response that is closed.
func TestReadAfterClose(t *testing.T) {
	b := NewMerger(MergerOptions{Workers: 1}).Merge([]Source{{Shard: "1", Body: io.NopCloser(strings.NewReader(`{"data":[]}`))}}, Request{})
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if n, err := b.Read(make([]byte, 10)); n != 0 || !errors.Is(err, ErrClosed) {
		t.Errorf("%d bytes, %v", n, err)
	}
}
