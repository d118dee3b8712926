package demo

import (
	"fmt"
	"unicode"
	"unicode/utf8"

	"github.com/taredb/tare/internal/quantity"
)

// fullWidth is the width of output without a right margin.
const fullWidth = 1 << 20

// shortDigest is the number of a digest's characters in the table; --json has all of them.
const shortDigest = 8

// The columns' names; rowText uses their widths. Below narrowWidth columns, the table omits less important
// columns to leave room for the statement.
const (
	tableHead   = "  CALLS/S       P50       P99      ROWS  ERRORS  TIME  DIGEST    STATEMENT"
	narrowHead  = "  CALLS/S       P50       P99  ERRORS  TIME  STATEMENT"
	narrowWidth = 90
)

// appendTable appends the header and at most rows rows, each truncated to width. If there are more digests
// than rows, the last row has the number of omitted ones.
func appendTable(dst []byte, digests []digestView, whole bool, width, rows int) []byte {
	narrow := width < narrowWidth
	head := tableHead
	if narrow {
		head = narrowHead
	}
	dst = appendCut(dst, head, width)
	for i := range digests {
		if i == rows-1 && len(digests) > rows {
			return appendCut(dst, fmt.Sprintf("  … and %d digests more", len(digests)-i), width)
		}
		dst = appendCut(dst, rowText(&digests[i], whole, narrow), width)
	}
	return dst
}

// rowText returns one row; whole selects the rate over the whole run instead of the latest one.
func rowText(d *digestView, whole, narrow bool) string {
	rate := d.perSecond
	if whole {
		rate = d.firstToLast
	}
	if narrow {
		return fmt.Sprintf("%9.1f %9s %9s %7s  %3.0f%%  %s", rate, quantity.Duration(d.p50), quantity.Duration(d.p99), quantity.Count(d.errors), 100*d.share, d.text)
	}
	id := d.id
	if len(id) > shortDigest {
		id = id[:shortDigest]
	}
	return fmt.Sprintf("%9.1f %9s %9s %9s %7s  %3.0f%%  %-*s  %s", rate, quantity.Duration(d.p50), quantity.Duration(d.p99),
		quantity.Count(d.rows), quantity.Count(d.errors), 100*d.share, shortDigest, id, d.text)
}

// appendCut appends a line of at most width columns. A truncated line ends in "…"; control characters, which
// a statement may contain and a terminal would interpret, become blanks.
func appendCut(dst []byte, line string, width int) []byte {
	at := 0
	for i, r := range line {
		w := columns(r)
		if at+w > width-1 && (at+w > width || i+utf8.RuneLen(r) < len(line)) {
			dst = append(dst, "…"...)
			break
		}
		if unicode.IsPrint(r) {
			dst = utf8.AppendRune(dst, r)
		} else {
			dst = append(dst, ' ')
		}
		at += w
	}
	return append(dst, '\n')
}

// columns returns an upper bound of a character's columns: beyond Latin, Greek and Cyrillic many occupy two,
// and truncating a line too early is better than wrapping it.
func columns(r rune) int {
	if r < 0x1100 || r == '…' {
		return 1
	}
	return 2
}

// size formats bytes with a unit.
func size(bytes float64) string {
	switch {
	case bytes < 1000:
		return quantity.Digits(bytes) + " B"
	case bytes < 1000<<10:
		return quantity.Digits(bytes/(1<<10)) + " KiB"
	}
	return quantity.Digits(bytes/(1<<20)) + " MiB"
}
