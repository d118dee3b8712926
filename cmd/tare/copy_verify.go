package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/taredb/tare/copier"
	"github.com/taredb/tare/internal/quantity"
)

// shownMismatches is the number of differing rows per table shown to people; --json has more.
const shownMismatches = 20

// printVerified prints the result of comparing a table.
func printVerified(w io.Writer, t copier.TableReport) error {
	v := t.Verify
	if v == nil {
		return nil
	}
	before := ""
	if v.Before > 0 {
		before = ", after " + quantity.Of(v.Before, "chunk") + " found equal before"
	}
	if v.Mismatches() == 0 && v.Incomplete() {
		_, err := fmt.Fprintf(w, "%s: verification incomplete: %d of %s; equal: %s\n", t.Source, v.Compared(), quantity.Of(v.Of, "chunk"), quantity.Of(v.Rows, "row"))
		return err
	}
	if v.Mismatches() == 0 {
		_, err := fmt.Fprintf(w, "%s: verified: %s in %s equal, checksum %s%s\n", t.Source, quantity.Of(v.Rows, "row"), quantity.Of(v.Chunks, "chunk"), v.Checksum, before)
		return err
	}
	fmt.Fprintf(w, "%s: NOT EQUAL: rows missing in the target: %d, only there: %d, with other values: %d; compared: %s in %s%s\n",
		t.Source, v.Missing, v.Extra, v.Changed, quantity.Of(v.Rows, "row"), quantity.Of(v.Chunks, "chunk"), before)
	shown, earlier := 0, false
	for _, d := range v.Different {
		earlier = earlier || d.Earlier
		for _, row := range d.Rows {
			if shown++; shown <= shownMismatches {
				fmt.Fprintf(w, "  %s %s\n", row.Kind, strings.Join(row.Key, ", "))
			}
		}
	}
	if int64(min(shown, shownMismatches)) < v.Mismatches() {
		fmt.Fprintln(w, "  … (--json names more)")
	}
	if earlier {
		fmt.Fprintln(w, "  some of them were copied by an earlier run: the source may have been written to since")
	}
	return nil
}
