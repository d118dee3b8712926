package main

import (
	"strings"
	"testing"
)

func TestApply(t *testing.T) {
	v := variant{"x", []edit{{"a(b)", "a(c)"}}}
	if got, err := v.apply("1 a(b) 2"); err != nil || got != "1 a(c) 2" {
		t.Errorf("got %q, error %v", got, err)
	}
	for _, text := range []string{"", "a(b) a(b)"} {
		if _, err := v.apply(text); err == nil {
			t.Errorf("%q: the edit was made", text)
		}
	}
}

func TestWriteLines(t *testing.T) {
	var out strings.Builder
	text := "goos: linux\nBenchmarkBlockSeries/concurrency:_1-2 \t 20\t 5 ns/op\nPASS\n"
	if err := writeLines(&out, "Tare", text); err != nil {
		t.Fatal(err)
	}
	if want := "BenchmarkBlockSeries/subject=Tare/concurrency:_1-2 \t 20\t 5 ns/op\n"; out.String() != want {
		t.Errorf("got %q, want %q", out.String(), want)
	}
	if err := writeLines(&out, "Tare", "PASS\n"); err == nil {
		t.Error("a run without a benchmark is no error")
	}
}
