package rollup

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash/crc32"
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
	magic         = "tareroll"
	formatVersion = 2 // 1 has its spreads from the shortest durations up; it is read, too

	headerBytes = 48
	tailBytes   = 16

	// PageBytes is how much of a column has one checksum.
	PageBytes = 16 << 10

	// MaxRows bounds the rows of a file. Of more, those that took the least time count as Other.
	MaxRows = 100_000

	// maxFileBytes is more than any file of ours has.
	maxFileBytes = 1 << 30
)

// The columns.
const (
	colLabels       = iota // JSON: the labels of the instance
	colTotals              // the counts and the spread of all rows together
	colOwed                // the same of the Carry
	ColPrints              // 16 bytes a row
	ColDigests             // 16 bytes a row
	colNames               // each with its length before it
	colSchemas             // numbers of names
	colUsers               //
	colBackends            //
	colTexts               // numbers of texts, from 1 on; 0: none
	colTextPlaces          // by text: its page, and in the lower 16 bits its place there
	colTextEnds            // by page of texts: where it ends in the next column
	colTextPages           // zstd frames of at most 64 KiB of texts, each with its length before it
	ColFirsts              // milliseconds from the start to the first call, and 1; 0: it was before
	colLasts               // milliseconds from the start to when calls were counted last
	ColCalls               //
	ColNanos               //
	ColRowsSent            //
	ColRowsAffected        //
	ColBytesSent           //
	ColErrors              // of the first class; the others follow
	colSpreadEnds   = ColErrors + stmtstats.ErrorClasses
	colSpreads      = colSpreadEnds + 1 // see stmtstats.Histogram.AppendSpread

	numColumns = colSpreads + 1
)

// numCounts is how many counts a row has.
const numCounts = colSpreadEnds - ColCalls

// A Print names a Key in a file.
type Print [16]byte

// EvictedPrint returns the print of the row of Evicted.
func EvictedPrint() Print { return Print{} }

// OtherPrint returns the print of the row of Other.
func OtherPrint() Print { return Print{15: 1} }

// IsSum reports whether the print is that of Evicted or Other.
func (p Print) IsSum() bool { return p == EvictedPrint() || p == OtherPrint() }

// Compare orders prints as files do.
func (p Print) Compare(o Print) int { return bytes.Compare(p[:], o[:]) }

// PrintOf returns the print of a Key, as its series have it.
func PrintOf(k *stmtstats.Key) Print {
	b := make([]byte, 0, 256)
	b = append(b, k.Digest[:]...)
	for _, name := range [...]string{k.Schema, k.User, k.Backend} {
		name = strings.ToValidUTF8(name, "\uFFFD")
		b = binary.AppendUvarint(b, uint64(len(name)))
		b = append(b, name...)
	}
	sum := sha256.Sum256(b)
	return Print(sum[:16])
}

// A Row has the counts of one Key.
type Row struct {
	Print       Print
	Key         stmtstats.Key
	Text        string
	First, Last int64 // Unix milliseconds; first is 0 when it was before
	Counts      Counts
	Spread      []byte
}

// A Carry has the counts of Keys that were evicted within the hour, which Evicted contains only in the next one.
type Carry struct {
	Counts Counts
	Spread []byte
}

// A Rollup is the content of a file.
type Rollup struct {
	Start        time.Time
	Span         time.Duration // an hour or a day
	Last         int64         // Unix milliseconds of the newest sample that it was made of
	Labels       map[string]string
	Rows         []Row // in the order of their prints
	Carry        Carry // of an hour
	Uncompressed bool  // its file will not be kept, and so its texts need not be small
}

const (
	Hour = time.Hour
	Day  = 24 * time.Hour
)

// A FormatError describes what is wrong with a file.
type FormatError struct{ what string }

func (e *FormatError) Error() string { return "not a rollup: " + e.what }

// FormatErrorf returns a FormatError.
func FormatErrorf(format string, args ...any) error {
	return &FormatError{fmt.Sprintf(format, args...)}
}

func checksum(b []byte) uint32 { return crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)) }
