package activeseries

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/iotest"
	"unicode/utf8"
)

// An outcome is the result of a decoder for a body.
type outcome struct {
	items []byte // each preceded by a comma
	n     int
	err   error // io.EOF for a valid body

	warnings []string
}

// accepted reports whether the body is valid, even if it reports an error.
func (o outcome) accepted() bool {
	var reported *ReportedError
	return errors.Is(o.err, io.EOF) || errors.As(o.err, &reported)
}

func (o outcome) reported() string {
	var reported *ReportedError
	if errors.As(o.err, &reported) {
		return reported.Type + "|" + reported.Text
	}
	return ""
}

// decode runs d to the end of r.
func decode(t testing.TB, d Decoder, r io.Reader) (o outcome) {
	t.Helper()
	d.Reset(r)
	for o.err == nil {
		var list []byte
		var n int
		list, n, o.err = d.Next()
		if (o.err == nil) != (n > 0) {
			t.Fatalf("Next returns %d items and error %v", n, o.err)
		}
		for item := range Items(list) {
			o.items = append(append(o.items, ','), item...)
			n--
			o.n++
		}
		if n != 0 {
			t.Fatalf("Next returns %d items fewer than it says in %q", n, list)
		}
	}
	o.warnings = d.Warnings()
	if _, _, again := d.Next(); !errors.Is(again, o.err) {
		t.Fatalf("after %v, Next returns %v", o.err, again)
	}
	return o
}

// splits reads b in pieces of random lengths.
type splits struct {
	b   []byte
	rnd *rand.Rand
}

func (s *splits) Read(p []byte) (int, error) {
	if len(s.b) == 0 {
		return 0, io.EOF
	}
	n := copy(p[:1+s.rnd.IntN(min(len(p), 1<<(1+s.rnd.IntN(10))))], s.b)
	s.b = s.b[n:]
	if len(s.b) == 0 && s.rnd.IntN(2) == 0 {
		return n, io.EOF
	}
	return n, nil
}

// oracle returns the expected result for a body, by encoding/json.Valid and a walk over its values.
func oracle(body []byte) (items []byte, accepted bool, failed bool) {
	if !json.Valid(body) || !utf8.Valid(body) {
		return nil, false, false
	}
	dec := json.NewDecoder(bytes.NewReader(body))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return nil, false, false
	}
	data := 0
	for dec.More() {
		name, err := dec.Token()
		if err != nil {
			return nil, false, false
		}
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return nil, false, false
		}
		var text any
		_ = json.Unmarshal(value, &text) // numbers out of range are not text
		switch name {
		case "data":
			data++
			if data > 1 {
				return nil, false, false
			}
			if string(value) == "null" {
				continue
			}
			var list []json.RawMessage
			if err := json.Unmarshal(value, &list); err != nil {
				return nil, false, false
			}
			for _, item := range list {
				if !isItem(item) {
					return nil, false, false
				}
				items = append(append(items, ','), item...)
			}
		case "status":
			failed = failed || text == "error"
		case "error":
			failed = failed || text != "" && string(value) != "null"
		}
	}
	return items, data == 1 || failed, failed
}

// isItem checks an item member by member, since a map would hide duplicates.
func isItem(item []byte) bool {
	if item[0] != '{' {
		return false
	}
	rest := item[1:]
	for {
		rest = bytes.TrimLeft(rest, " \t\r\n,:")
		if rest[0] == '}' {
			return true
		}
		if rest[0] != '"' {
			return false
		}
		dec := json.NewDecoder(bytes.NewReader(rest))
		var s string
		if err := dec.Decode(&s); err != nil {
			return false
		}
		rest = rest[dec.InputOffset():]
	}
}

// check compares both decoders with the oracle, for all ways to read body.
func check(t *testing.T, body []byte, seed uint64) outcome {
	t.Helper()
	items, accepted, failed := oracle(body)
	strict := decode(t, new(Scanner), bytes.NewReader(body))
	plain := decode(t, new(plainScanner), bytes.NewReader(body))
	for name, o := range map[string]outcome{"strict": strict, "plain": plain} {
		if o.accepted() != accepted {
			t.Fatalf("%s ends with %v; to be accepted: %t: %q", name, o.err, accepted, body)
		}
		if accepted && !bytes.Equal(o.items, items) {
			t.Fatalf("%s has items\n%q, want\n%q", name, o.items, items)
		}
		if (o.reported() != "") != (accepted && failed) {
			t.Fatalf("%s reports %q, to be reported: %t: %q", name, o.reported(), failed, body)
		}
	}
	if !bytes.Equal(strict.items, plain.items) || strict.reported() != plain.reported() {
		t.Fatalf("strict and plain differ:\n%q, %v\n%q, %v", strict.items, strict.err, plain.items, plain.err)
	}
	if accepted && !slices.Equal(strict.warnings, plain.warnings) {
		t.Fatalf("strict and plain have different warnings:\n%q\n%q", strict.warnings, plain.warnings)
	}
	rnd := rand.New(rand.NewPCG(seed, 0))
	readers := map[string]io.Reader{
		"splits":        &splits{body, rnd},
		"halves":        iotest.HalfReader(bytes.NewReader(body)),
		"data with EOF": iotest.DataErrReader(bytes.NewReader(body)),
	}
	if len(body) < 4<<10 {
		readers["bytes"] = iotest.OneByteReader(bytes.NewReader(body))
	}
	for name, r := range readers {
		same(t, name, decode(t, new(Scanner), r), strict)
	}
	same(t, "plain by splits", decode(t, new(plainScanner), &splits{body, rnd}), plain)
	return strict
}

// same compares two outcomes of the same body.
func same(t *testing.T, name string, got, want outcome) {
	t.Helper()
	if !bytes.Equal(got.items, want.items) || got.n != want.n || !slices.Equal(got.warnings, want.warnings) || errText(got.err) != errText(want.err) {
		t.Fatalf("read %s:\ngot  %q, %v\nwant %q, %v", name, got.items, got.err, want.items, want.err)
	}
}

func errText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
