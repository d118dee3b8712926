package copier_test

import (
	"errors"
	"testing"

	"github.com/thanos-io/objstore"

	"github.com/taredb/tare/internal/move/dump"
	"github.com/taredb/tare/internal/move/tabledef"
	"github.com/taredb/tare/move/copier"
	"github.com/taredb/tare/mysql/rowstream"
)

// TestFileTarget checks the contract of rowTarget for the files of a dump: a chunk that was cut is resumed, copy is all or nothing, a later run reads
// a chunk again if its rows have changed, finish ends a table.
func TestFileTarget(t *testing.T) {
	p := newPair(t, "files")
	sqlExec(t, p.source, "CREATE TABLE a (id INT PRIMARY KEY, c VARCHAR(20))", "INSERT INTO a SELECT seq, CONCAT('row ', seq) FROM seq_1_to_40", "ANALYZE TABLE a")
	o := p.options("a")
	o.Tables, o.Workers, o.Follow = []tabledef.Spec{{Schema: "files", Name: "a"}}, 1, false
	to := dump.Destination{Bucket: objstore.NewInMemBucket(), Name: "memory"}
	prepare := func(want int) (copier.RowTarget, func()) {
		t.Helper()
		target, before, end, err := copier.PrepareFiles(t.Context(), o, to)
		if err != nil {
			t.Fatal(err)
		}
		if before != want {
			t.Errorf("%d chunks were written before, want %d", before, want)
		}
		return target, func() {
			if err := end(); err != nil {
				t.Error(err)
			}
		}
	}
	end, last := rowOf(10)[:1], rowOf(30)[:1]
	chunks := []rowstream.Chunk{{Upto: end}, {Number: 1, After: end, Upto: last}, {Number: 2, After: last}}
	bounds := [][2]int{{1, 10}, {11, 30}, {31, 40}}
	copyChunk := func(target copier.RowTarget, number int) (reads int, err error) {
		err = target.Copy(t.Context(), chunks[number], func(write func(*rowstream.Batch) error, settle func() error) error {
			reads++
			middle := bounds[number][0] + 3
			return errors.Join(write(batchOf(bounds[number][0], middle)), settle(), write(batchOf(middle+1, bounds[number][1])))
		})
		return reads, err
	}

	target, stop := prepare(0)
	for _, c := range append(chunks, chunks[1]) { // one is cut again
		if err := target.Cut(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	if err := target.Copy(t.Context(), chunks[0], func(write func(*rowstream.Batch) error, _ func() error) error {
		return errors.Join(write(batchOf(1, 5)), copier.SourceError(errTestSource))
	}); !errors.Is(err, errTestSource) {
		t.Errorf("a source that fails: %v", err)
	}
	stop()

	target, stop = prepare(0)
	for number := range 2 {
		if reads, err := copyChunk(target, number); reads != 1 || err != nil {
			t.Errorf("chunk %d is read %d times: %v", number, reads, err)
		}
	}
	if err := target.Finish(t.Context()); err == nil {
		t.Error("a table is finished whose last chunk is not written")
	}
	stop()

	sqlExec(t, p.source, "UPDATE a SET c = 'changed' WHERE id = 20")
	target, stop = prepare(2)
	for number, want := range []int{0, 1, 1} {
		if reads, err := copyChunk(target, number); reads != want || err != nil {
			t.Errorf("chunk %d is read %d times, want %d: %v", number, reads, want, err)
		}
	}
	if err := target.Finish(t.Context()); err != nil {
		t.Error(err)
	}
	stop()

	report, err := copier.Dump(t.Context(), o, to) // reads the changed row: batchOf had passed the old one
	if err != nil {
		t.Fatal(err)
	}
	if a := report.Tables[0]; a.Rows != 40 || a.Chunks != 3 || a.Before != 2 {
		t.Errorf("%+v", a)
	}
}
