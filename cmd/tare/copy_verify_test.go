package main

import (
	"strings"
	"testing"

	"github.com/taredb/tare/copier"
	"github.com/taredb/tare/copier/verify"
)

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
