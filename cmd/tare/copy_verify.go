package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/taredb/tare/copier"
)

// shownMismatches is how many rows that differ are shown to people, a table; --json has more.
const shownMismatches = 20

// printVerified says what comparing a table has shown.
func printVerified(w io.Writer, t copier.TableReport) error {
	v := t.Verify
	if v == nil {
		return nil
	}
	before := ""
	if v.Before > 0 {
		before = fmt.Sprintf(", after %d chunks that were found equal before", v.Before)
	}
	if v.Mismatches() == 0 && v.Incomplete() {
		_, err := fmt.Fprintf(w, "%s: verification incomplete: %d of %d chunks; their %d rows are equal\n", t.Source, v.Compared(), v.Of, v.Rows)
		return err
	}
	if v.Mismatches() == 0 {
		_, err := fmt.Fprintf(w, "%s: verified: %d rows in %d chunks are equal, checksum %s%s\n", t.Source, v.Rows, v.Chunks, v.Checksum, before)
		return err
	}
	fmt.Fprintf(w, "%s: NOT EQUAL: rows missing in the target: %d, only there: %d, with other values: %d; compared: %d rows in %d chunks%s\n",
		t.Source, v.Missing, v.Extra, v.Changed, v.Rows, v.Chunks, before)
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
