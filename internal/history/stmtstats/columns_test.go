package stmtstats

import (
	"bytes"
	"compress/gzip"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/google/go-cmp/cmp"
)

// openContent opens a table with this content, and returns its samples by the kind and the second byte of the digest.
func openContent(t *testing.T, content []byte, digests, pages int) map[[2]byte]Sample {
	t.Helper()
	o := Options{
		Dir: t.TempDir(), MaxDigests: digests, Bytes: leastBytes(digests) + int64(pages*pageBytes),
		Now: func() time.Time { return time.Date(2026, 3, 1, 0, 0, 9, 0, time.UTC) },
	}
	path := filepath.Join(o.Dir, tableName)
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	read := func() map[[2]byte]Sample {
		table := mustOpen(t, o)
		if aside := table.Stats().SetAside; aside != "" {
			t.Fatal("the table was set aside")
		}
		all := make(map[[2]byte]Sample)
		if err := table.Each(func(s *Sample) error {
			s.Text = strings.Clone(s.Text)
			all[[2]byte{byte(s.Kind), s.Digest[1]}] = *s
			return table.check()
		}); err != nil {
			t.Fatal(err)
		}
		if err := table.Close(); err != nil {
			t.Fatal(err)
		}
		return all
	}
	first := read()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, c, err := readHeader(aligned(raw)); err != nil || !c.current() {
		t.Errorf("the file was not replaced by one of this version: %v", err)
	}
	if diff := cmp.Diff(first, read()); diff != "" {
		t.Errorf("opened again (-first +second):\n%s", diff)
	}
	return first
}

// contentOfVersion1 is a table of version 1, of 3 digests, each called with 3 rows sent, 2 changed and 300 bytes sent: the first
// was evicted after one call, the next two have 2 and 3 calls, 4 calls are of Other, and the last digest has 5, in a schema with
// a long name. The second call of each digest is a deadlock.
func contentOfVersion1(t *testing.T) []byte {
	t.Helper()
	zipped, err := os.ReadFile(filepath.Join("testdata", "digests-v1.table.gz"))
	if err != nil {
		t.Fatal(err)
	}
	z, err := gzip.NewReader(bytes.NewReader(zipped))
	if err != nil {
		t.Fatal(err)
	}
	raw, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// version1Counters are the counters of version 1 that each call of contentOfVersion1 increases.
func version1Counters() map[string]uint64 {
	return map[string]uint64{"rows_sent": 3, "rows_affected": 2, "bytes_received": 20, "bytes_sent": 300, "warnings": 1}
}

// TestVersion1 opens a table of version 1: all of its counters that there are still have their values, also with another size.
func TestVersion1(t *testing.T) {
	for _, pages := range []int{60, 90} {
		got := openContent(t, contentOfVersion1(t), 3, pages)
		calls := map[[2]byte]uint64{{byte(Evicted), 0}: 1, {byte(Other), 0}: 4, {byte(Tracked), 1}: 2, {byte(Tracked), 2}: 3, {byte(Tracked), 4}: 5}
		if len(got) != len(calls) {
			t.Errorf("%d pages: %d samples", pages, len(got))
		}
		for key, n := range calls {
			s := got[key]
			want := Counts{Calls: n, Nanos: 300_000 * n * (n - 1) / 2}
			for name, each := range version1Counters() {
				if c, ok := ParseCounter(name); ok {
					want[c] = each * n
				}
			}
			if n > 1 {
				want[int(Errors)+int(ClassDeadlock)] = 1
			}
			if s.Counts != want || s.Histogram.Count() != n || s.Histogram.Zero != 1 || s.Histogram.Nanos != want[Nanos] {
				t.Errorf("%d pages, %s %d: %+v, want %+v; %d durations, %d in the zero bucket", pages, s.Kind, key[1], s.Counts, want, s.Histogram.Count(), s.Histogram.Zero)
			}
			if s.Kind == Tracked && (s.Text != "select ? from t"+string('0'+rune(key[1])) || s.User != "app" || s.Schema == "") {
				t.Errorf("%d pages, digest %d: text %q, %+v", pages, key[1], s.Text, s.Key)
			}
		}
	}
}

// TestOtherCounters opens a table whose counters have other names: the counter that this version has not is dropped, and the one
// that the file has not is 0. All others have their values.
func TestOtherCounters(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, tableName)
	if err := os.WriteFile(path, contentOfVersion1(t), 0o600); err != nil {
		t.Fatal(err)
	}
	table := mustOpen(t, Options{Dir: dir, MaxDigests: 3, Bytes: leastBytes(3) + 60*pageBytes})
	if err := table.Close(); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before := openContent(t, content, 3, 60)
	rename := func(from, to string) []byte {
		raw := aligned(content)
		h := (*header)(unsafe.Pointer(unsafe.SliceData(raw)))
		names := strings.Replace(string(h.names[:h.nameBytes]), from, to, 1)
		h.nameBytes = uint32(copy(h.names[:], names))
		h.nameSum = crc32.Checksum([]byte(names), castagnoli)
		return raw
	}
	got := openContent(t, rename("rows_affected\n", "later\n"), 3, 60)
	if len(got) != len(before) {
		t.Errorf("%d samples, want %d", len(got), len(before))
	}
	for key, want := range before {
		if want.Counts[RowsAffected] == 0 {
			t.Errorf("%v has no row changed", key)
		}
		want.Counts[RowsAffected] = 0
		if diff := cmp.Diff(want, got[key]); diff != "" {
			t.Errorf("%v (-want +got):\n%s", key, diff)
		}
	}
	swapped := openContent(t, rename("rows_sent\nrows_affected\n", "rows_affected\nrows_sent\n"), 3, 60)
	for key, want := range before {
		want.Counts[RowsSent], want.Counts[RowsAffected] = want.Counts[RowsAffected], want.Counts[RowsSent]
		if diff := cmp.Diff(want, swapped[key]); diff != "" {
			t.Errorf("in another order: %v (-want +got):\n%s", key, diff)
		}
	}
	for what, raw := range map[string][]byte{
		"a name that occurs twice": rename("rows_affected\n", "rows_sent\n"),
		"too few names":            rename("rows_affected\n", ""),
	} {
		if _, _, err := readHeader(raw); err == nil {
			t.Errorf("%s: taken", what)
		}
	}
	raw := aligned(content)
	raw[unsafe.Offsetof(header{}.names)] ^= 1
	if _, _, err := readHeader(raw); err == nil {
		t.Error("a name that was damaged: taken")
	}
}

// TestCounters checks the descriptions: each counter has its own name, metric and help.
func TestCounters(t *testing.T) {
	seen := make(map[string]Counter)
	for c := range Counter(NumCounters) {
		if got, ok := ParseCounter(c.String()); !ok || got != c {
			t.Errorf("%s is parsed as %s, %v", c, got, ok)
		}
		info := c.Info()
		for _, text := range []string{info.Name, info.Title, info.Metric, info.Help} {
			if of, ok := seen[text]; text == "" || ok && of != c.Base() {
				t.Errorf("%s has %q, as %s has", c, text, of)
			}
			seen[text] = c.Base()
		}
	}
	if len(counterNames()) > len(header{}.names) {
		t.Errorf("%d bytes of names", len(counterNames()))
	}
}
