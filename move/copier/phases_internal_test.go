package copier

import (
	"strings"
	"testing"

	"github.com/taredb/tare/internal/move/tabledef"
	"github.com/taredb/tare/internal/move/telemetry"
	"github.com/taredb/tare/mysql/binlog"
	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/mysqlwire"
	"github.com/taredb/tare/mysql/rowstream"
)

// phaseJob returns a job with tables as a state has recorded them.
func phaseJob(states ...tabledef.Recorded) *job {
	o := &Options{Tuning: Tuning{Workers: 2}, To: mysqlconn.Config{Addr: "target:3306"}, Observe: func(telemetry.Event) {}}
	o.waits = &telemetry.Waits{Observe: o.Observe}
	j := newJob(o)
	j.from, j.pacer = sourceAt{addr: "source:3306"}, o.newPacer()
	for i := range states {
		spec := &tabledef.Spec{Schema: "shop", Name: string(rune('a' + i))}
		j.tables = append(j.tables, &tabledef.Table{Spec: spec, Source: &rowstream.Table{}, State: &states[i]})
	}
	return j
}

// TestRowsPhase resumes a copy whose first table is finished and whose second one has a chunk left, and takes its steps in place of the workers.
// The status shows each of them.
func TestRowsPhase(t *testing.T) {
	at := mysqlwire.TextRow{[]byte("5")}
	j := phaseJob(
		tabledef.Recorded{Phase: tabledef.Finished, Chunks: []tabledef.RecordedChunk{
			{Chunk: rowstream.Chunk{Upto: at}, Copied: true, Rows: 10}, {Chunk: rowstream.Chunk{Number: 1, After: at}, Copied: true, Rows: 5},
		}},
		tabledef.Recorded{Phase: tabledef.Copying, Chunks: []tabledef.RecordedChunk{
			{Chunk: rowstream.Chunk{Upto: at}, Copied: true, Rows: 3}, {Chunk: rowstream.Chunk{Number: 1, After: at}},
		}})
	p := &rowsPhase{job: j}
	r := newReading(p)
	m := &monitor{job: j, phase: telemetry.RunPreparing}
	shows := func(phase tabledef.Phase, rows int64, chunks int) {
		t.Helper()
		b := m.status().Tables[1]
		if b.Phase != string(phase) || b.Rows != rows || b.ChunksCopied != chunks {
			t.Errorf("%s with %d rows of %d chunks, want %s with %d of %d", b.Phase, b.Rows, b.ChunksCopied, phase, rows, chunks)
		}
	}
	takes := func(do act, table int) (s step) {
		t.Helper()
		if s = r.next(); s.do != do || s.table != table {
			t.Fatalf("%v of table %d, want %v of %d", s.do, s.table, do, table)
		}
		return s
	}
	shows(tabledef.Copying, 0, 0)
	m.copies(p)
	shows(tabledef.Copying, 0, 0) // the state is not read yet
	p.resume(t.Context(), r)
	shows(tabledef.Copying, 3, 1)
	s := takes(copyChunk, 1)
	if progress := p.add(s.table, s.chunk, 7, 70); progress.Rows != 25 {
		t.Errorf("progress with %d rows, want 25", progress.Rows)
	}
	r.notify(func(m *machine) { m.wasCopied(1) })
	shows(tabledef.Indexing, 10, 2)
	takes(buildIndexes, 1)
	r.notify(func(m *machine) { m.wasIndexed(1) })
	takes(stop, 0)
	shows(tabledef.Finished, 10, 2)
	if status := m.status(); status.Phase != telemetry.RunCopying || status.Tables[0].Rows != 15 || status.Tables[1].Bytes != 70 {
		t.Errorf("status %+v", status)
	}
	if rows, chunks, before := p.result(1); rows != 10 || chunks != 2 || before != 1 {
		t.Errorf("%d rows in %d chunks, %d of them from before", rows, chunks, before)
	}
}

// TestOldest reads the log from the first start of the tables, and refuses those that cannot be compared.
func TestOldest(t *testing.T) {
	const uuid, other = "3e11fa47-71ca-11e1-9e33-c80aa9429562", "3e11fa47-71ca-11e1-9e33-c80aa9429563"
	at := func(gtid string) tabledef.Recorded {
		return tabledef.Recorded{Position: binlog.Position{GTID: gtid, File: "binlog.000001", Offset: 4}.String()}
	}
	for _, tt := range []struct {
		name   string
		states []tabledef.Recorded
		want   string // a part of the error, or the GTIDs
	}{
		{"one", []tabledef.Recorded{at(uuid + ":1-7")}, uuid + ":1-7"},
		{"the second is older", []tabledef.Recorded{at(uuid + ":1-7"), at(uuid + ":1-5"), at(uuid + ":1-9")}, uuid + ":1-5"},
		{"other transactions", []tabledef.Recorded{at(uuid + ":1-7"), at(other + ":1-5")}, "neither is before the other"},
		{"no position", []tabledef.Recorded{{}}, "turn on log_bin"},
	} {
		s := &changeStream{job: phaseJob(tt.states...)}
		got, err := s.oldest()
		if err != nil {
			got.GTID = err.Error()
		}
		if (err != nil) == strings.HasPrefix(tt.want, uuid) || !strings.Contains(got.GTID, tt.want) {
			t.Errorf("%s: %s, want %s", tt.name, got.GTID, tt.want)
		}
	}
}
