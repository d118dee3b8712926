package history

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"strings"
	"time"

	"github.com/taredb/tare/stmtstats"
)

// A rollup file has what was counted of each Key in one hour or one day, by column, so that a
// ranking reads two columns of it. Numbers are little-endian.
//
//	header   48 bytes: magic, version, how many columns, rows and texts there are, the time, a checksum
//	columns  one behind the other, without gaps
//	footer   of each column its width, its bytes, and a CRC-32C for each page of 16 KiB of it
//	tail     16 bytes: CRC-32C and length of the footer, magic
//
// A numeric column has a value of its width for each row: 0, 1, 2, 4 or 8 bytes, the least that hold
// all; 0 says that all are 0. Rows are ordered by their print, the beginning of the SHA-256 of the Key.
// The prints 0 and 1 are those of Evicted and Other, where these have counted. Every byte of a file is
// guarded, and its bytes depend on its content alone.
const (
	rollupMagic   = "tareroll"
	rollupVersion = 2 // 1 has its spreads from the shortest durations up; it is read, too

	rollupHeader = 48
	rollupTail   = 16
	rollupPage   = 16 << 10

	// maxRollupRows bounds the rows of a file. Of more, those that took the least time count as Other.
	maxRollupRows = 100_000

	// maxRollupBytes is more than any file of ours has.
	maxRollupBytes = 1 << 30
)

// The columns.
const (
	colLabels       = iota // JSON: the labels of the instance
	colTotals              // the counts and the spread of all rows together
	colOwed                // the like of what is yet to appear in Evicted, see hourDeriver
	colPrints              // 16 bytes a row
	colDigests             // 16 bytes a row
	colNames               // each with its length before it
	colSchemas             // numbers of names
	colUsers               //
	colBackends            //
	colTexts               // numbers of texts, from 1 on; 0: none
	colTextPlaces          // by text: its page, and in the lower 16 bits its place there
	colTextEnds            // by page of texts: where it ends in the next column
	colTextPages           // zstd frames of at most 64 KiB of texts, each with its length before it
	colFirsts              // milliseconds from the start to the first call, and 1; 0: it was before
	colLasts               // milliseconds from the start to when calls were counted last
	colCalls               //
	colNanos               //
	colRowsSent            //
	colRowsAffected        //
	colBytesSent           //
	colErrors              // of the first class; the others follow
	colSpreadEnds   = colErrors + stmtstats.ErrorClasses
	colSpreads      = colSpreadEnds + 1 // see Histogram.appendSpread

	rollupColumns = colSpreads + 1
)

// numCounts is how many counts a row has.
const numCounts = colSpreadEnds - colCalls

// A keyPrint names a Key in a file.
type keyPrint [16]byte

func evictedPrint() keyPrint { return keyPrint{} }
func otherPrint() keyPrint   { return keyPrint{15: 1} }

// isSum says whether it is that of Evicted or Other.
func (p keyPrint) isSum() bool { return p == evictedPrint() || p == otherPrint() }

func (p keyPrint) compare(o keyPrint) int { return bytes.Compare(p[:], o[:]) }

// printOf is the print of a Key, as its series have it.
func printOf(k *stmtstats.Key) keyPrint {
	b := make([]byte, 0, 256)
	b = append(b, k.Digest[:]...)
	for _, name := range [...]string{k.Schema, k.User, k.Backend} {
		name = strings.ToValidUTF8(name, "\uFFFD")
		b = binary.AppendUvarint(b, uint64(len(name)))
		b = append(b, name...)
	}
	sum := sha256.Sum256(b)
	return keyPrint(sum[:16])
}

// A rollupRow is what was counted of one Key.
type rollupRow struct {
	print       keyPrint
	key         stmtstats.Key
	text        string
	first, last int64 // Unix milliseconds; first is 0 when it was before
	counts      counts
	spread      []byte
}

// An owed is what Keys had that made room, and Evicted has only in the next hour.
type owed struct {
	counts counts
	spread []byte
}

// A rollup is the content of a file.
type rollup struct {
	start  time.Time
	span   time.Duration // an hour or a day
	last   int64         // Unix milliseconds of the newest sample that it was made of
	labels map[string]string
	rows   []rollupRow // in the order of their prints
	owed   owed        // of an hour
	plain  bool        // its file will not be kept, and so its texts need not be small
}

const (
	rollupHour = time.Hour
	rollupDay  = 24 * time.Hour
)

// A rollupError says what is wrong with a file.
type rollupError struct{ what string }

func (e *rollupError) Error() string { return "not a rollup: " + e.what }

func badRollup(format string, args ...any) error {
	return &rollupError{fmt.Sprintf(format, args...)}
}
