package statements

import (
	"fmt"
	"sync"
	"time"

	"github.com/taredb/tare/history"
	"github.com/taredb/tare/history/localdb"
	"github.com/taredb/tare/stmtstats"
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

	counters struct {
		sync.Mutex
		of       *localdb.Database
		at       time.Time
		snapshot *snapshot // of the table at that time; nil: none
		rest     *planned  // the growth since its begin; nil: none
	}
}

// liveFor is how long the counters of all digests are reused, and kept in memory. They are read by requests only.
const liveFor = time.Second

// settled is the minimum age of a sample when the counters are read that are compared with it, unless they are read
// after it: a round's samples have the time of its start, and the values of the time at which it reads them.
const settled = time.Minute

// reusable reports whether the counters of all digests were read less than liveFor ago. The caller holds the lock of
// a.counters.
func (a *ArchiveReader) reusable(in *history.Instance) bool {
	l := &a.counters
	age := a.archive.Now().Sub(l.at)
	return l.snapshot != nil && l.of == in.Samples && age >= 0 && age < liveFor
}

// readLive reads the counters of all digests, to be reused. The caller holds the lock of a.counters.
func (a *ArchiveReader) readLive(in *history.Instance) error {
	l, now := &a.counters, a.archive.Now()
	l.snapshot, l.rest = nil, nil
	s, err := a.snapshotNow(in, now, nil)
	if err != nil {
		return err
	}
	l.of, l.at, l.snapshot = in.Samples, now, s
	time.AfterFunc(liveFor, func() { a.dropLive(s) })
	return nil
}

// dropLive drops the counters unless they were read again.
func (a *ArchiveReader) dropLive(s *snapshot) {
	a.counters.Lock()
	defer a.counters.Unlock()
	if a.counters.snapshot == s {
		a.counters.snapshot, a.counters.rest = nil, nil
	}
}

// liveSnapshot returns the counters of all digests and the time at which they were read. They are compared with the
// samples at the given time.
func (a *ArchiveReader) liveSnapshot(in *history.Instance, from time.Time) (*snapshot, time.Time, error) {
	l := &a.counters
	l.Lock()
	defer l.Unlock()
	if !a.reusable(in) || l.at.Sub(from) < settled {
		if err := a.readLive(in); err != nil {
			return nil, l.at, err
		}
	}
	return l.snapshot, l.at, nil
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
