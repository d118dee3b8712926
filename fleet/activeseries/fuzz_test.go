package activeseries

import (
	"bytes"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/taredb/tare/internal/alloctest"
	"github.com/taredb/tare/internal/testactive"
)

// bodies returns seeds: similar valid and invalid bodies.
func bodies(t testing.TB) []string {
	text, err := os.ReadFile("testdata/bodies.txt")
	if err != nil {
		t.Fatal(err)
	}
	list := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
	return append(list, string(testactive.Body(3, 2)), "{\n\t\"data\" : [\r\n { \"a\" : \"b\" }\n,{}\t]\n}\n",
		"{\"data\":[{\"a\":\"\xff\"}]}", "{\"data\":[{\"a\":\"\xed\xa0\x80\"}]}", "{\"data\":[{\"a\":\"\xc0\x80\"}]}",
		"{\"data\":[{\"a\":\"b\nc\"}]}", "{\"data\":[{\"a\":\"b\x00c\"}]}", "\ufeff{\"data\":[]}", "{\"x\":\"\xe2\x82\",\"data\":[]}")
}

// FuzzScan compares both decoders with encoding/json, for all ways to read a body and all truncations.
func FuzzScan(f *testing.F) {
	for i, b := range bodies(f) {
		f.Add([]byte(b), uint64(i))
	}
	f.Fuzz(func(t *testing.T, body []byte, seed uint64) {
		defer alloctest.Bounded(t, 32<<20)()
		o := check(t, body, seed)
		if o.accepted() && len(body) < 1<<10 {
			truncate(t, body)
		}
	})
}

// truncate truncates a valid body at each byte.
func truncate(t *testing.T, body []byte) {
	t.Helper()
	var s Scanner
	for end := range bytes.TrimRight(body, " \t\r\n") {
		for name, d := range map[string]Decoder{"strict": &s, "plain": new(plainScanner)} {
			o := decode(t, d, bytes.NewReader(body[:end]))
			var e *Error
			if !errors.As(o.err, &e) || e.Fault != Truncated && e.Fault != Encoding {
				t.Fatalf("%s ends with %v at %q", name, o.err, body[:end])
			}
			if name == "strict" && (e.Fault != Truncated || e.Offset != int64(end)) {
				t.Fatalf("strict ends with %v at byte %d: %q", o.err, end, body[:end])
			}
		}
	}
}
