package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestPublished expects every row of each publication, with a ratio where both values are known.
func TestPublished(t *testing.T) {
	for name, rows := range map[string]int{"plancache": 3, "blockseries": 36, "activeseries": 48, "querylog": 15, "rows": 1} {
		got, err := publishedTable(name)
		if err != nil {
			t.Fatal(err)
		}
		if len(got.rows) != rows {
			t.Errorf("%s: %d rows, want %d", name, len(got.rows), rows)
		}
		for _, r := range got.rows {
			if r.publishedRatio == "" && r.published[1] != "-" {
				t.Errorf("%s: %s has no ratio", name, r.name)
			}
		}
	}
}

// TestTable joins lines of both sides with a publication.
func TestTable(t *testing.T) {
	got, err := publishedTable("activeseries")
	if err != nil {
		t.Fatal(err)
	}
	for side, lines := range []string{
		"BenchmarkX/encoding=none/num-responses-4-2 10 100 ns/op 5 MB/s 3000 B/op 90 allocs/op\n" +
			"BenchmarkX/encoding=none/num-responses-4-2 10 300 ns/op 5 MB/s 3000 B/op 90 allocs/op\n",
		"BenchmarkX/encoding=none/num-responses-4-2 10 400 ns/op 5 MB/s 1500 B/op 9 allocs/op\nBenchmarkX/ours-2 10 1 ns/op\n",
	} {
		file := filepath.Join(t.TempDir(), "lines")
		if err := os.WriteFile(file, []byte(lines), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := got.addSide(side, file); err != nil {
			t.Fatal(err)
		}
	}
	var b strings.Builder
	if err := got.write(&b); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"| encoding=none/num-responses-4 | ns/op | 8.93µs | 7.51µs | 0.84 |  |  | 2 (worse) |\n",
		"| encoding=none/num-responses-4 | B/op | 1.98kB | 1.74kB | 0.88 | 3k | 1.5k | 0.5 |\n",
		"| seriesCount=1_000/num-responses-128 | allocs/op | 1.03M | 0.00M | 0.00 |  |  |  |\n",
		"| ours | ns/op |  |  |  |  |  |  |\n",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no row %s in\n%s", want, b.String())
		}
	}
}

// TestUpstream compares lines by the parts of their names, and says where Tare is slower.
func TestUpstream(t *testing.T) {
	u := upstream{theirs: "/by=them", ours: "/by=us", other: ",extra"}
	var b strings.Builder
	err := u.write(&b, []byte("BenchmarkX/a/by=them-2 1 100 ns/op 0 allocs/op\nBenchmarkX/a/by=us/z-2 1 9 ns/op\nBenchmarkX/a,extra/by=us-2 1 150 ns/op 4 allocs/op\nBenchmarkX/b/by=themselves-2 1 1 ns/op\n"))
	if err != nil {
		t.Fatal(err)
	}
	if want := "| X/a | ns/op |  |  | 1.5 | Tare is slower |\n| X/a | allocs/op | 0 | 4 | – | Tare takes more |\n"; !strings.HasSuffix(b.String(), want) {
		t.Errorf("got\n%s", b.String())
	}
	if err := u.write(&b, nil); err == nil {
		t.Error("no lines are no error")
	}
}
