package tabledef

import (
	"strings"

	"github.com/taredb/tare/mysql/rowstream"
)

// A Phase is the progress of a table. It is stored in the target under these names.
type Phase string

// The phases.
const (
	Copying  Phase = "copying"
	Indexing Phase = "indexing"
	Emptying Phase = "emptying" // by --restart; no run resumes it
	Finished Phase = "finished"
)

// A Recorded is a row of copy_table with its chunks.
type Recorded struct {
	Source, Spec string
	Phase        Phase
	Indexes      []Index      // left out, to be created after the rows
	Keys         []ForeignKey // to be created after the rows
	Started      string
	Position     string // of the first run's snapshot
	Chunks       []RecordedChunk
}

// A RecordedChunk is a row of copy_chunk.
type RecordedChunk struct {
	rowstream.Chunk
	Copied bool
	Rows   int64
}

// A ForeignKey is a key of a target table to be created after the rows.
type ForeignKey struct {
	Name       string
	Definition string // for ALTER TABLE … ADD
	Referred   string // the table that it refers to, quoted for SQL
}

// JoinKeys returns a list of the definitions for messages.
func JoinKeys(keys []ForeignKey) string {
	parts := make([]string, len(keys))
	for i, k := range keys {
		parts[i] = k.Definition
	}
	return strings.Join(parts, ", ")
}
