package activeseries

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/taredb/tare/internal/testseed"
)

// TestSizes compares the limits of both decoders for each field of a body, in each notation.
func TestSizes(t *testing.T) {
	if testing.Short() {
		t.Skip("decodes bodies of MaxItem bytes in many forms")
	}
	repeat := func(s string, n int) string { return strings.Repeat(s, n/len(s)) }
	fields := map[string]func(n int) string{ // bodies with a token of n bytes
		"name":           func(n int) string { return `{"` + repeat("a", n-2) + `":1,"data":[]}` },
		"string":         func(n int) string { return `{"x": "` + repeat("a", n-2) + `" ,"data":[]}` },
		"escapes":        func(n int) string { return `{"x":"` + repeat("a", (n-2)%6) + repeat(`\u0041`, n-2) + `","data":[]}` },
		"number":         func(n int) string { return `{"x":` + repeat("1", n) + `,"data":[]}` },
		"nested name":    func(n int) string { return `{"x":{"` + repeat("a", n-2) + `":null},"data":[]}` },
		"nested number":  func(n int) string { return `{"x":{"y":` + repeat("1", n) + `},"data":[]}` },
		"after the data": func(n int) string { return `{"data":[{"a":"b"}],"x":"` + repeat("a", n-2) + `"}` },
		"item":           func(n int) string { return `{"data":[{"a":"` + repeat("a", n-8) + `"}]}` },
	}
	for name, body := range fields {
		for _, n := range []int{maxItem, maxItem + 1} {
			strict, plain := outcomeOf(new(Scanner), body(n)), outcomeOf(new(plainScanner), body(n))
			if strict != plain {
				t.Errorf("%s of MaxItem%+d: strict %s, plain %s", name, n-maxItem, strict, plain)
			}
			if fits := n <= maxItem && (n < maxItem || !strings.Contains(name, "number")); fits != strings.HasPrefix(strict, "EOF") {
				t.Errorf("%s of MaxItem%+d: %s", name, n-maxItem, strict)
			}
		}
	}
}

// outcomeOf returns a text with the bytes of a body's items and its error.
func outcomeOf(d Decoder, body string) string {
	d.Reset(strings.NewReader(body))
	bytes := 0
	for {
		items, _, err := d.Next()
		if err == io.EOF { //nolint:errorlint // as Decoder says
			return fmt.Sprintf("EOF, %d bytes of items", bytes)
		}
		if err != nil {
			return fmt.Sprintf("an error, %d bytes of items", bytes)
		}
		bytes += len(items)
	}
}

// TestRandomBodies compares both decoders on bodies of random valid and invalid parts, with white space
// everywhere.
func TestRandomBodies(t *testing.T) {
	r := testseed.Rand(t)
	tokens := []string{`"data"`, `"status"`, `"error"`, `"x"`, `"__count__"`, "[", "]", "{", "}", ",", ":", "1", "-0.5e9", "01", "true", "nul", `"\u00e9\ud800"`, "\"\xff\"", `"a"`, "null", " ", "\n", "\t\r"}
	accepted, bodies := 0, 20_000
	if testing.Short() {
		bodies = 2000
	}
	for range bodies {
		var b bytes.Buffer
		if r.IntN(3) > 0 { // similar to a valid one
			b.WriteString(`{"status":"success"`)
			for range r.IntN(3) {
				fmt.Fprintf(&b, `, "m%d" :%s`, r.IntN(9), []string{"1", `"t"`, "[1,{}]", `{"a":[null]}`, "null", "false"}[r.IntN(6)])
			}
			b.WriteString(`,"data": [{"a":"1"} ,{"b":"2"}]`)
			for range r.IntN(3) {
				b.WriteString(tokens[r.IntN(len(tokens))])
			}
			b.WriteString("}")
		} else {
			for range r.IntN(20) {
				b.WriteString(tokens[r.IntN(len(tokens))])
			}
		}
		o := check(t, b.Bytes(), r.Uint64())
		if o.accepted() {
			accepted++
		}
	}
	if t.Failed() || accepted < bodies/40 {
		t.Errorf("%d bodies were accepted", accepted)
	}
}
