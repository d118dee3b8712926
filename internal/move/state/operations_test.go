package state

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/taredb/tare/internal/move/tabledef"
	"github.com/taredb/tare/internal/testrows"
	"github.com/taredb/tare/mysql/binlog"
	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/rowstream"
)

// none is the result of an operation that has none.
func none(err error) (any, error) { return nil, err }

// operations are those of TestFaults.
func (f *faults) operations() []operation {
	type conn = *mysqlconn.Client
	st, a, key := f.st, f.a.Spec, len(f.a.Source.Key)
	second := rowstream.Chunk{Number: 1, After: testrows.Row("10"), Upto: f.next.After}
	all := []operation{
		{name: "State.Load", want: &tabledef.Recorded{
			Source: "source", Spec: "all", Phase: tabledef.Copying, Indexes: []tabledef.Index{"KEY n (n)", "KEY m (n, id)"}, Position: position(4).String(),
			Keys:   []tabledef.ForeignKey{{Name: "fk", Definition: "CONSTRAINT fk", Referred: "dst.b"}},
			Chunks: []tabledef.RecordedChunk{{Chunk: rowstream.Chunk{Upto: second.After}, Copied: true, Rows: 3}, {Chunk: second}},
		}, call: func(ctx context.Context, c conn) (any, error) {
			t, err := st.Load(ctx, c, a, key)
			if err == nil && t.Started == "" {
				err = errors.New("it has no start")
			}
			if err == nil {
				t.Started = ""
			}
			return t, err
		}},
		{name: "State.LeftOut", want: []tabledef.Index{"KEY n (n)", "KEY m (n, id)"}, call: func(ctx context.Context, c conn) (any, error) { return st.LeftOut(ctx, c, a) }},
		{name: "State.LoadKeys", want: []tabledef.ForeignKey{{Name: "fk", Definition: "CONSTRAINT fk", Referred: "dst.b"}}, call: func(ctx context.Context, c conn) (any, error) { return st.LoadKeys(ctx, c, a) }},
		{name: "State.Definition", want: &tabledef.Definition{Table: f.a.Source, Layout: []int{0, 1}, Upto: position(5)}, call: func(ctx context.Context, c conn) (any, error) { return st.Definition(ctx, c, a) }},
		{name: "State.LoadVerified", want: map[int]bool{0: true}, call: func(ctx context.Context, c conn) (any, error) { return st.LoadVerified(ctx, c, a) }},
		{name: "State.Known", want: true, call: func(ctx context.Context, c conn) (any, error) { return st.Known(ctx, c, a) }},
		{name: "State.FollowedTables", want: map[string][]binlog.Position{"dst.a": {position(6)}}, call: func(ctx context.Context, c conn) (any, error) {
			return st.FollowedTables(ctx, c, []string{"source", "other"})
		}},
		{name: "State.RecordedSources", want: []string{"source"}, call: func(ctx context.Context, c conn) (any, error) {
			return st.RecordedSources(ctx, c, []tabledef.Spec{*a})
		}},
		{name: "State.PhaseOf", want: fmt.Sprint(tabledef.Copying, position(4)), call: func(ctx context.Context, c conn) (any, error) {
			phase, p, err := st.PhaseOf(ctx, c, a)
			return fmt.Sprint(phase, p), err
		}},
		{name: "Jobs", before: []string{"UPDATE _tare.copy_table SET started = '2026-01-02 03:04:05'"}, want: "dst.a from source: copying, 2 chunks, 1 copied, 3 rows, 2 indexes, all cut false; dst.m from source 1 from source: copying, 1 chunks, 0 copied, 0 rows, 0 indexes, all cut true; ", call: func(ctx context.Context, c conn) (any, error) {
			jobs, err := Jobs(ctx, c, "_tare")
			var text strings.Builder
			for _, j := range jobs {
				fmt.Fprintf(&text, "%s from %s: %s, %d chunks, %d copied, %d rows, %d indexes, all cut %v; ", j.Target, j.Source, j.Phase, j.Chunks, j.Copied, j.Rows, j.Indexes, j.AllCut)
			}
			return text.String(), err
		}},
		{name: "MustRead", call: func(ctx context.Context, c conn) (any, error) {
			return none(MustRead(ctx, c, "SELECT source FROM "+st.Tables()+RowsOf(a), "source"))
		}},
		{name: "Following.Position", want: position(6), call: func(ctx context.Context, c conn) (any, error) { return f.following().Position(ctx, c) }},
		{name: "Lease.Confirm", call: func(ctx context.Context, c conn) (any, error) { return none(st.Lease.Confirm(ctx, c)) }},
		{name: "Lease.Check", call: func(ctx context.Context, c conn) (any, error) { return none(st.Lease.Check(ctx, c)) }},

		{name: "State.Begin State.RecordKeys", before: []string{"DELETE FROM _tare.copy_table", "DELETE FROM _tare.copy_foreign_key"}, once: true, call: func(ctx context.Context, c conn) (any, error) {
			keys := []tabledef.ForeignKey{{Name: "x", Definition: "d", Referred: "r"}, {Name: "y", Definition: "d", Referred: "r"}}
			return none(st.Begin(ctx, c, a, "text", "from", "", []tabledef.Index{"KEY z (z)"}, keys))
		}},
		{name: "State.Begin", before: []string{"UPDATE _tare.copy_table SET phase = 'emptying'", "DELETE FROM _tare.copy_foreign_key"}, once: true, call: func(ctx context.Context, c conn) (any, error) {
			return none(st.Begin(ctx, c, a, "text", "from", "", nil, nil))
		}},
		{name: "State.Cut", call: func(ctx context.Context, c conn) (any, error) { return none(st.Cut(ctx, c, a, f.next)) }},
		{name: "State.SetPhase", before: []string{"UPDATE _tare.copy_chunk SET copied = 1", "UPDATE _tare.copy_chunk SET upto_key = NULL WHERE chunk = 1"}, call: func(ctx context.Context, c conn) (any, error) {
			return none(st.SetPhase(ctx, c, a, tabledef.Finished, key))
		}},
		{name: "State.Empty", call: func(ctx context.Context, c conn) (any, error) { return none(st.Empty(ctx, c, a)) }},
		{name: "State.Define", call: func(ctx context.Context, c conn) (any, error) {
			return none(st.Define(ctx, c, a, tabledef.Definition{Table: f.merged.Source, Layout: []int{1, 0}, Upto: position(9)}))
		}},
		{name: "State.StoppedBy", call: func(ctx context.Context, c conn) (any, error) { return none(st.StoppedBy(ctx, c, a, "DROP TABLE a")) }},
		{name: "State.Verified", call: func(ctx context.Context, c conn) (any, error) { return none(st.Verified(ctx, c, a, second)) }},
		{name: "State.ForgetVerified", call: func(ctx context.Context, c conn) (any, error) { return none(st.ForgetVerified(ctx, c, a)) }},
		{name: "State.KeepLookup", call: func(ctx context.Context, c conn) (any, error) { return none(st.KeepLookup(ctx, c, f.lookup, false)) }, partly: true},
		{name: "State.KeepLookup", before: []string{
			"CREATE TABLE IF NOT EXISTS _tare.copy_lookup (target_schema varbinary(256), target_table varbinary(256), entries longblob NOT NULL, PRIMARY KEY (target_schema, target_table))",
			fmt.Sprintf("REPLACE INTO _tare.copy_lookup VALUES ('dst', 'a', x'%x')", f.lookup.Lookup.Record()[:3]),
		}, call: func(ctx context.Context, c conn) (any, error) { return none(st.KeepLookup(ctx, c, f.lookup, true)) }},
		{name: "State.ForgetTable", partly: true, call: func(ctx context.Context, c conn) (any, error) { return none(st.ForgetTable(ctx, c, a)) }},
		{name: "State.ForgetOthers", partly: true, call: func(ctx context.Context, c conn) (any, error) {
			return none(st.ForgetOthers(ctx, c, &tabledef.Spec{ToSchema: "dst", ToName: "m"}))
		}},
		{name: "State.Turn", partly: true, before: []string{"UPDATE _tare.copy_table SET phase = 'finished'"}, call: func(ctx context.Context, c conn) (any, error) {
			back := &tabledef.Spec{Schema: "dst", Name: "a", ToSchema: "dst", ToName: "b"}
			return none(st.Turn(ctx, c, a, back, "back", position(7).String(), tabledef.Definition{Table: f.a.Source, Upto: position(7)}))
		}},
		{name: "State.Write Lease.Write ExecExact", call: func(ctx context.Context, c conn) (any, error) {
			return none(st.Write(ctx, c, a, func() error {
				if err := ExecExact(ctx, c, "UPDATE dst.a SET n = n + 1 WHERE id = 5", 1); err != nil {
					return err
				}
				return ExecExact(ctx, c, "UPDATE dst.a SET n = n + 1 WHERE id = 9", 1)
			}))
		}, once: true},
		{name: "Following.Record Following.Note", call: func(ctx context.Context, c conn) (any, error) { return none(f.following().Record(ctx, c, position(8))) }},
		{name: "Following.Forget", call: func(ctx context.Context, c conn) (any, error) { return none(f.following().Forget(ctx, c)) }},
		{name: "AcquireLease", want: "b<nil> <nil>", partly: true, call: func(ctx context.Context, c conn) (any, error) {
			specs := []*tabledef.Spec{{ToSchema: "dst", ToName: "c"}, {ToSchema: "dst", ToName: "b"}}
			l, err := AcquireLease(ctx, c, State{Schema: "_tare"}, specs, time.Second)
			if err != nil {
				return nil, err
			}
			return fmt.Sprint(l.First.ToName, l.Check(ctx, f.holder), l.Confirm(ctx, f.holder)), nil
		}},
		{name: "LockIndexes WithIndexLock", call: func(ctx context.Context, c conn) (any, error) {
			return none(WithIndexLock(ctx, c, st.Lease, a, time.Second, func() error { return ExecExact(ctx, c, "UPDATE dst.a SET n = 7 WHERE id = 5") }))
		}},
		{name: "TakeLock AwaitLock", call: func(ctx context.Context, c conn) (any, error) {
			return none(AwaitLock(ctx, c, "of a run", time.Second))
		}},
		{name: "Conflict", want: true, tolerant: "the conflict is certain, its other side is not", before: []string{"REPLACE INTO dst.m VALUES (2000, 50)"}, call: func(ctx context.Context, c conn) (any, error) {
			var deletes [][]byte
			for _, condition := range []string{"n = 50", "id = 2"} {
				deletes = append(deletes, []byte("DELETE FROM dst.m WHERE "+condition+" AND ("+f.merged.Target.Owned.Condition()+")"))
			}
			var conflict *tabledef.ConflictError
			err := Conflict(ctx, c, &f.merged.Target, &mysqlconn.ServerError{Number: errDuplicateEntry}, deletes)
			return errors.As(err, &conflict) && conflict.Other == "source 2 (two:2)", nil
		}},
	}
	for name, create := range map[string]func(State, context.Context, conn) error{
		"State.Create": State.Create, "State.CreateEpochs": State.CreateEpochs, "State.CreateFollow": State.CreateFollow, "State.CreateCutover": State.CreateCutover,
	} {
		all = append(all, operation{name: name, before: []string{"DROP DATABASE IF EXISTS _other"}, partly: true, call: func(ctx context.Context, c conn) (any, error) {
			return none(create(State{Schema: "_other"}, ctx, c))
		}})
	}
	chunk := second
	return append(all,
		operation{name: "Writer.Connect Writer.Reconnect Writer.Retry", write: func(ctx context.Context, w *Writer) (any, error) {
			err := w.Retry(ctx, func() error { return st.Cut(ctx, w.Conn, a, f.next) })
			return fmt.Sprint(w.insert, w.Limit, w.Warnings), err
		}},
		operation{name: "Writer.Begin ChunkWriter.Write ChunkWriter.Settle ChunkWriter.Commit Writer.Recover", write: func(ctx context.Context, w *Writer) (any, error) {
			return none(f.copyChunk(ctx, w, f.a, chunk, 12, 15, 17))
		}},
		operation{name: "ChunkWriter.Write", before: []string{"SET GLOBAL local_infile = 0"}, write: func(ctx context.Context, w *Writer) (any, error) {
			return none(f.copyChunk(ctx, w, f.a, chunk, 12, 15))
		}},
		operation{name: "ChunkWriter.Write Writer.Expected ConflictWait.Wait", before: []string{"SET GLOBAL local_infile = 1", "REPLACE INTO dst.m VALUES (3, 50)"}, write: func(ctx context.Context, w *Writer) (any, error) {
			return none(f.copyChunk(ctx, w, f.merged, rowstream.Chunk{}, 5, 6))
		}},
		operation{name: "ChunkWriter.Write of a wide row", before: []string{"SET GLOBAL local_infile = 0", "SET GLOBAL max_allowed_packet = 32768"}, write: func(ctx context.Context, w *Writer) (any, error) {
			f.note = 9000
			defer func() { f.note = 0 }()
			return none(f.copyChunk(ctx, w, f.a, chunk, 12))
		}},
		operation{name: "ChunkWriter.Commit of typed rows", before: []string{"SET GLOBAL local_infile = 1", "SET GLOBAL max_allowed_packet = DEFAULT"}, write: func(ctx context.Context, w *Writer) (any, error) {
			typed := *f.merged
			typed.Target.Typed = &tabledef.Typed{Head: "REPLACE INTO dst.m SELECT id, n + 1000 FROM dst.m WHERE "}
			return none(f.copyChunk(ctx, w, &typed, rowstream.Chunk{}, 5, 6))
		}},
		operation{name: "RaiseCounter RaiseCounters", before: []string{"ALTER TABLE dst.a AUTO_INCREMENT = 1"}, write: func(ctx context.Context, w *Writer) (any, error) {
			if err := RaiseCounters(ctx, f.source, []*tabledef.Table{f.a, f.merged}, w, time.Second); err != nil {
				return nil, err
			}
			n, err := targetCounter(ctx, f.holder, a)
			return n, err
		}},
		operation{name: "RaiseCounter", before: []string{"ALTER TABLE dst.a AUTO_INCREMENT = 1"}, call: func(ctx context.Context, _ conn) (any, error) { // errors of the source
			w := f.writer(f.direct)
			defer w.Close()
			source, err := binlog.OpenDirect(ctx, f.through)
			if err != nil {
				return nil, err
			}
			defer source.Close()
			return RaiseCounter(ctx, source, f.a, w, time.Second)
		}},
	)
}
