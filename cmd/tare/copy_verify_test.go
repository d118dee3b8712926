package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/taredb/tare/internal/move/verify"
	"github.com/taredb/tare/move/copier"
)

// TestUnexplainedExitCode checks that sums that differ without differing rows are not a failure that the same command repeats.
func TestUnexplainedExitCode(t *testing.T) {
	unexplained := &verify.UnexplainedError{Table: "shop.orders", Chunk: 3, Upto: []string{"9", "x"}}
	for _, err := range []error{unexplained, fmt.Errorf("alter shop.orders by a copy: %w", unexplained)} {
		var text strings.Builder
		if code := report(t.Context(), &text, "tare copy", copyError(t.Context(), err)); code != exitPartial {
			t.Errorf("exit code %d for %v", code, err)
		}
		if want := "sums differ, rows do not: chunk 3 of shop.orders (up to key (9, x)): the source has 0 rows"; !strings.Contains(text.String(), want) {
			t.Errorf("%s, want %s", text.String(), want)
		}
		if code := report(t.Context(), &text, "tare alter", alterError(t.Context(), err)); code != exitPartial {
			t.Errorf("tare alter: exit code %d for %v", code, err)
		}
	}
}

// TestVerifyError checks the last line of copies whose verification found differences or did not read all
// rows.
func TestVerifyError(t *testing.T) {
	for _, tt := range []struct {
		v    *verify.Report
		want string // of the error; empty: none
		text string // of the report
	}{
		{nil, "", ""},
		{&verify.Report{Of: 2, Chunks: 2, Rows: 9}, "", "verified: 9 rows in 2 chunks equal"},
		{&verify.Report{Of: 2, Chunks: 2, Missing: 1}, "1 row differs between the two sides", "NOT EQUAL: rows missing in the target: 1"},
		{&verify.Report{Of: 2, Chunks: 2, Extra: 2}, "2 rows differ between the two sides", "only there: 2"},
		{&verify.Report{Of: 7}, "verification incomplete: 0 of 7 chunks", "verification incomplete: 0 of 7 chunks; equal: 0 rows"},
		{&verify.Report{Of: 7, Chunks: 2, Changed: 1}, "1 row differs between the two sides; verification incomplete: 2 of 7 chunks", "NOT EQUAL"},
	} {
		r := &copier.Report{Tables: []copier.TableReport{{Source: "a.b", Target: "a.b", Verify: tt.v}}}
		got := ""
		if err := verifyError(r); err != nil {
			got = err.Error()
		}
		if got != tt.want {
			t.Errorf("%+v: %q, want %q", tt.v, got, tt.want)
		}
		var b strings.Builder
		if err := printCopyReport(&b, r, false); err != nil || !strings.Contains(b.String(), tt.text) {
			t.Errorf("%+v: %v: %s", tt.v, err, b.String())
		}
	}
}
