package statements

import (
	"fmt"
	"sync"

	"github.com/taredb/tare/history"
	"github.com/taredb/tare/internal/history/localdb"
	"github.com/taredb/tare/internal/history/stmtstats"
)

// An ArchiveReader describes statements over time. It is safe for concurrent use.
type ArchiveReader struct {
	archive *history.Archive
	table   *stmtstats.Table
	options history.ArchiveOptions
	few     int64 // minutes × Keys up to which samples are added up for a chart of all statements
	halved  int   // minimum number of rows that are ranked in two halves

	lastClose struct {
		sync.Mutex
		of       *localdb.Database
		snapshot *snapshot // at the end of the newest hour with a rollup
	}

	counters liveCounters
}

// NewArchiveReader returns a reader of an archive and of the table that is its source.
func NewArchiveReader(a *history.Archive, t *stmtstats.Table) *ArchiveReader {
	return &ArchiveReader{archive: a, table: t, options: a.Options(), few: fewMinutes, halved: halvedRows}
}

// waitingNote describes a result while the archive waits: samples cannot be read.
func waitingNote(cause error) string {
	return fmt.Sprintf("the history is not open: %v; these are the counts in memory", cause)
}

// current returns the instance that is written to. The archive does not wait.
func (a *ArchiveReader) current() *history.Instance {
	all := a.archive.Instances()
	return &all[len(all)-1]
}
