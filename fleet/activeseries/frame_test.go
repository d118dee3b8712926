package activeseries

import (
	"bytes"
	"encoding/binary"
	"errors"
	"strings"
	"testing"
)

// TestFrames decodes valid and invalid frames with both decoders.
func TestFrames(t *testing.T) {
	frame := func(items ...string) []byte {
		var b []byte
		for _, item := range items {
			b = append(binary.AppendUvarint(b, uint64(len(item))), item...)
		}
		return b
	}
	long := `{"a":"` + strings.Repeat("x", 200) + `"}`
	sum := func(frames []byte, n int64) []byte {
		s := frameSum{on: true}
		s.add(frames, n)
		return s.appendEnd(bytes.Clone(frames), FormFramedEnd, nil)
	}
	two := frame(`{"a":"b"}`, long)
	damaged := bytes.Replace(sum(two, 2), []byte("xxx"), []byte("xyx"), 1)
	for _, c := range []struct {
		name  string
		form  Form
		body  []byte
		items string
		fault Fault // 0 for none
	}{
		{"none", FormFramed, nil, "", 0},
		{"none, with end", FormFramedEnd, sum(nil, 0), "", 0},
		{"none, without end", FormFramedEnd, nil, "", Truncated},
		{"two", FormFramed, two, `,{"a":"b"},` + long, 0},
		{"white space", FormFramed, frame(" {} ", "{ }\n"), ",{},{ }", 0},
		{"with end", FormFramedEnd, sum(two, 2), `,{"a":"b"},` + long, 0},
		{"end not agreed on", FormFramed, sum(two, 2), `,{"a":"b"},` + long, Syntax},
		{"a frame is missing", FormFramedEnd, append(frame(`{"a":"b"}`), sum(two, 2)[len(two):]...), `,{"a":"b"}`, Checksum},
		{"a byte is another", FormFramedEnd, damaged, `,{"a":"b"},` + strings.Replace(long, "xxx", "xyx", 1), Checksum},
		{"after the end", FormFramedEnd, append(sum(two, 2), 0), `,{"a":"b"},` + long, Syntax},
		{"length too large", FormFramed, binary.AppendUvarint(nil, MaxItem+1), "", Size},
		{"length no uvarint", FormFramed, bytes.Repeat([]byte{0xff}, 11), "", Syntax},
		{"two items in a frame", FormFramed, frame(`{},{}`), "", Syntax},
		{"an item in two frames", FormFramed, frame(`{"a":`, `"b"}`), "", Syntax},
		{"not a string", FormFramed, frame(`{"a":1}`), "", Shape},
		{"not UTF-8", FormFramed, frame("{\"a\":\"\xff\"}"), "", Encoding},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, by := range []Implementation{Strict, Stdlib} {
				o := decode(t, NewDecoder(by, c.form), bytes.NewReader(c.body))
				if string(o.items) != c.items {
					t.Errorf("%s: items are\n%s\nwant\n%s", by, o.items, c.items)
				}
				var e *Error
				switch {
				case c.fault == 0 && !o.accepted():
					t.Errorf("%s: %v", by, o.err)
				case c.fault != 0 && !errors.As(o.err, &e):
					t.Errorf("%s: %v, want a fault of %s", by, o.err, c.fault)
				case c.fault != 0 && by == Strict && e.Fault != c.fault:
					t.Errorf("%v is a fault of %s, want %s", e, e.Fault, c.fault)
				}
			}
		})
	}
}

// TestFrameViews expects items with lengths of several bytes as a list that is valid JSON.
func TestFrameViews(t *testing.T) {
	item := `{"a":"` + strings.Repeat("x", 20_000) + `"}`
	list := []byte("," + item + "," + item)
	d := NewFrameScanner(FormFramed)
	d.Reset(bytes.NewReader(AppendFrames(nil, list)))
	got, n, err := d.Next()
	if want := "," + "  " + item + ",  " + item; err != nil || n != 2 || string(got) != want {
		t.Errorf("%d items of %d bytes, %v", n, len(got), err)
	}
}
