package rollup

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/taredb/tare/internal/history/stmtstats"
)

// A rollup file has the counts of each Key in one hour or one day, by column, so that a ranking reads two
// columns. Numbers are little-endian.
//
//	header   48 bytes: magic, version, numbers of columns, rows and texts, the time, a checksum
//	columns  consecutive, without gaps
//	footer   for each column its name, its width, its bytes, and a CRC-32C for each page of 16 KiB
//	tail     16 bytes: CRC-32C and length of the footer, magic
//
// A numeric column has one value of its width for each row: 0, 1, 2, 4 or 8 bytes, the smallest that fits all
// values; 0 means that all values are 0. Columns are found by their names: a file may lack counts, which are 0, and have
// columns that are unknown, which are not read. Rows are sorted by their print, the first bytes of the SHA-256 of
// the Key. The prints 0 and 1 are those of Evicted and Other, if these have counts. Every byte of a file is
// covered by a checksum, and the bytes depend only on the content.
const (
	magic         = "tareroll"
	formatVersion = 3 // version 2 has no names of columns

	headerBytes = 48
	tailBytes   = 16

	// PageBytes is the number of bytes of a column per checksum.
	PageBytes = 16 << 10

	// MaxRows bounds the rows of a file. Beyond it, those with the least time count as Other.
	MaxRows = 100_000

	// maxFileBytes exceeds the size of any file written by Tare.
	maxFileBytes = 1 << 30
)

// The columns. Those from colCounts on are the counters of stmtstats.
const (
	colLabels     = iota // JSON: the labels of the instance
	colTotals            // the counts of all rows together, in the order of their columns, and the spread
	colOwed              // likewise of the Carry
	ColPrints            // 16 bytes per row
	ColDigests           // 16 bytes per row
	colNames             // length-prefixed
	colSchemas           // numbers of names
	colUsers             //
	colBackends          //
	colTexts             // numbers of texts, from 1; 0: none
	colTextPlaces        // by text: its page, and its offset there in the lower 16 bits
	colTextEnds          // by page of texts: its end in the next column
	colTextPages         // zstd frames of at most 64 KiB of texts, each text length-prefixed
	ColFirsts            // milliseconds from the start to the first call, plus 1; 0: an earlier first call
	colLasts             // milliseconds from the start to the last increase of the counts
	colSpreadEnds        //
	colSpreads           // see stmtstats.Histogram.AppendSpread
	colCounts            //

	numColumns = colCounts + stmtstats.NumCounters
)

// ColumnOf returns the column of a counter.
func ColumnOf(c stmtstats.Counter) int { return colCounts + int(c) }

// countPrefix starts the names of the columns of counts.
const countPrefix = "count."

var columnNames = [colCounts]string{
	"labels", "totals", "owed", "prints", "digests", "names", "schemas", "users", "backends", "texts", "text_places", "text_ends",
	"text_pages", "firsts", "lasts", "spread_ends", "spreads",
}

// columnName returns the name of a column in a file.
func columnName(column int) string {
	if column >= colCounts {
		return countPrefix + stmtstats.Counter(column-colCounts).String()
	}
	return columnNames[column]
}

// columnsOfVersion2 returns the names of the columns of version 2.
func columnsOfVersion2() []string {
	names := append([]string(nil), columnNames[:colSpreadEnds]...)
	for _, name := range [...]string{
		"calls", "nanoseconds", "rows_sent", "rows_affected", "bytes_sent", "errors.other", "errors.syntax", "errors.denied",
		"errors.constraint", "errors.data", "errors.deadlock", "errors.timeout", "errors.killed", "errors.read_only", "errors.resource",
		"errors.connection",
	} {
		names = append(names, countPrefix+name)
	}
	return append(names, columnNames[colSpreadEnds:]...)
}

// A Print identifies a Key in a file.
type Print [16]byte

// EvictedPrint returns the print of the row of Evicted.
func EvictedPrint() Print { return Print{} }

// OtherPrint returns the print of the row of Other.
func OtherPrint() Print { return Print{15: 1} }

// IsSum reports whether the print is that of Evicted or Other.
func (p Print) IsSum() bool { return p == EvictedPrint() || p == OtherPrint() }

// Compare orders prints as files do.
func (p Print) Compare(o Print) int { return bytes.Compare(p[:], o[:]) }

// PrintOf returns the print of a Key, computed from the labels of its series.
func PrintOf(k *stmtstats.Key) Print {
	b := make([]byte, 0, 256)
	b = append(b, k.Digest[:]...)
	for _, name := range [...]string{k.Schema, k.User, k.Backend} {
		name = ValidName(name)
		b = binary.AppendUvarint(b, uint64(len(name)))
		b = append(b, name...)
	}
	sum := sha256.Sum256(b)
	return Print(sum[:16])
}

// ValidName returns a name as it is stored, in valid UTF-8.
func ValidName(name string) string {
	if utf8.ValidString(name) { // much faster than ToValidUTF8
		return name
	}
	return strings.ToValidUTF8(name, "\uFFFD")
}

// A Row has the counts of one Key.
type Row struct {
	Print       Print
	Key         stmtstats.Key
	Text        string
	First, Last int64 // Unix milliseconds; First is 0 if it was before the range
	Counts      stmtstats.Counts
	Spread      []byte
}

// A Carry has the counts of Keys that were evicted within the hour, which Evicted includes only in the next
// hour.
type Carry struct {
	Counts stmtstats.Counts
	Spread []byte
}

// A Rollup is the content of a file.
type Rollup struct {
	Start        time.Time
	Span         time.Duration // an hour or a day
	Last         int64         // Unix milliseconds of the newest sample
	Labels       map[string]string
	Rows         []Row // in the order of their prints
	Carry        Carry // of an hour
	Uncompressed bool  // the file is temporary, and its texts need not be compressed
}

// The periods of rollups.
const (
	Hour = time.Hour
	Day  = 24 * time.Hour
)

// A FormatError describes why a file is not a rollup.
type FormatError struct{ what string }

func (e *FormatError) Error() string { return "not a rollup: " + e.what }

// FormatErrorf returns a FormatError.
func FormatErrorf(format string, args ...any) error {
	return &FormatError{fmt.Sprintf(format, args...)}
}

func checksum(b []byte) uint32 { return crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)) }
