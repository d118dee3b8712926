package dump

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/thanos-io/objstore"

	"github.com/taredb/tare/internal/alloctest"
	"github.com/taredb/tare/internal/move/inventory"
	"github.com/taredb/tare/internal/move/telemetry"
	"github.com/taredb/tare/internal/testbucket"
	"github.com/taredb/tare/mysql/mysqlwire"
	"github.com/taredb/tare/mysql/rowstream"
)

// testTable is a table of two columns.
var testTable = &rowstream.Table{
	Schema: "shop", Name: "orders", KeyName: "PRIMARY", Key: []int{0}, Engine: "InnoDB",
	Columns: []rowstream.Column{{Name: "id", Type: "int", FullType: "int"}, {Name: "note", Type: "varchar", FullType: "varchar(50)", Charset: "utf8mb4", Nullable: true}},
}

// testBatch has n rows, every seventh of which has a NULL.
func testBatch(n int) *rowstream.Batch {
	b := &rowstream.Batch{}
	b.Reset(2)
	for i := range n {
		note := fmt.Appendf(nil, "a note\twith number %d", i*7919%1009)
		if i%7 == 0 {
			note = nil
		}
		b.AppendRow(mysqlwire.TextRow{fmt.Append(nil, i), note})
	}
	return b
}

func memory() *Destination {
	return &Destination{Bucket: objstore.NewInMemBucket(), Name: "memory", Patience: time.Second}
}

func TestAllocs(t *testing.T) {
	const rows = 1000
	b := testBatch(rows)
	to := memory()
	w, err := newChunkWriter(to)
	if err != nil {
		t.Fatal(err)
	}
	names := func(int) string { return "chunk" }
	w.begin(names)
	if err := w.write(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	files, err := w.end(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	r, err := newChunkReader(to)
	if err != nil {
		t.Fatal(err)
	}
	defer r.close()
	summer := rowstream.NewBatchSummer(testTable)
	alloctest.Run(t, []alloctest.Case{
		{Name: "1,000 rows summed up, escaped and compressed", Op: func() error {
			w.begin(names)
			var sum rowstream.Checksum
			if err := summer.Add(&sum, b); err != nil || sum.Rows != rows {
				return fmt.Errorf("%d rows: %w", sum.Rows, err)
			}
			return w.write(t.Context(), b)
		}},
		{Name: "1,000 rows of a file: what the bucket allocates for it", PerThousand: 25_000, Op: func() error {
			n := 0
			r.begin(&Chunk{Rows: rows, Bytes: int64(len(b.Bytes))}, 2)
			_, err := r.read(t.Context(), files[0], 2, rowstream.DefaultBatchBytes, func(b *rowstream.Batch) (bool, error) {
				n += b.Rows
				return true, nil
			})
			if n != rows {
				err = errors.Join(err, fmt.Errorf("%d rows", n))
			}
			return err
		}},
	})
}

// TestChunkFiles writes chunks whose rows are in no file, one and several, wide ones too, and reads them in batches of several sizes.
func TestChunkFiles(t *testing.T) {
	wide := &rowstream.Batch{}
	wide.Reset(2)
	wide.AppendRow(mysqlwire.TextRow{[]byte("1"), bytes.Repeat([]byte("wide\t\\"), 1<<20)})
	for _, tt := range []struct {
		name    string
		batches []*rowstream.Batch
		limit   int
		files   int
	}{
		{"no rows", nil, MaxFileBytes, 0},
		{"one file", []*rowstream.Batch{testBatch(10), testBatch(5000)}, MaxFileBytes, 1},
		{"several files", []*rowstream.Batch{testBatch(5000), testBatch(5000), testBatch(5000)}, 1000, 3},
		{"a wide row", []*rowstream.Batch{testBatch(10), wide, testBatch(10)}, MaxFileBytes, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			to := memory()
			w, err := newChunkWriter(to)
			if err != nil {
				t.Fatal(err)
			}
			w.limit = tt.limit
			w.begin(func(part int) string { return fmt.Sprint("part", part) })
			var want []byte
			for _, b := range tt.batches {
				want = append(want, b.Bytes...)
				if err := w.write(t.Context(), b); err != nil {
					t.Fatal(err)
				}
			}
			files, err := w.end(t.Context())
			if err != nil || len(files) != tt.files {
				t.Fatalf("%d files (%v), want %d", len(files), err, tt.files)
			}
			r, err := newChunkReader(to)
			if err != nil {
				t.Fatal(err)
			}
			defer r.close()
			for _, size := range []int{1, 1000, 1 << 20} {
				var got []byte
				r.begin(&Chunk{Bytes: int64(len(want)), Rows: int64(len(want))}, 2)
				for _, f := range files {
					if _, err := r.read(t.Context(), f, 2, size, func(b *rowstream.Batch) (bool, error) {
						got = append(got, b.Bytes...)
						return true, b.Check()
					}); err != nil {
						t.Fatal(err)
					}
				}
				if !bytes.Equal(got, want) {
					t.Errorf("batches of %d bytes: got %d bytes of rows, want %d", size, len(got), len(want))
				}
			}
		})
	}
}

// TestBucketFails retries a bucket that fails, until the patience is over, and never a file that is missing.
func TestBucketFails(t *testing.T) {
	failing := testbucket.NewFailing(objstore.NewInMemBucket())
	d := &Destination{Bucket: failing, Name: "bucket", Patience: time.Minute}
	f, err := d.put(t.Context(), "a", []byte("text"))
	if err != nil {
		t.Fatal(err)
	}
	failing.Fail(testbucket.FailRule{Op: "get", How: testbucket.FailBroken, Times: 1})
	if got, err := d.load(t.Context(), f, nil); err != nil || string(got) != "text" {
		t.Errorf("after a failure: %q, %v", got, err)
	}
	d.Patience = time.Millisecond
	failing.Fail(testbucket.FailRule{Op: "get", How: testbucket.FailError, Times: -1})
	if _, err := d.load(t.Context(), f, nil); err == nil || errors.Is(err, ErrDamaged) {
		t.Errorf("a bucket that fails: %v", err)
	}
	failing.Heal()
	d.Patience = time.Minute
	if _, err := d.load(t.Context(), File{Name: "b", Size: 4}, nil); !errors.Is(err, ErrDamaged) || !errors.Is(err, errMissing) {
		t.Errorf("a missing file: %v", err)
	}
}

// A fullDisk is a bucket whose next uploads fail for lack of space.
type fullDisk struct {
	objstore.Bucket
	left int
}

func (b *fullDisk) Upload(ctx context.Context, name string, r io.Reader, o ...objstore.ObjectUploadOption) error {
	if b.left--; b.left >= 0 {
		return fmt.Errorf("write: %w", &fs.PathError{Op: "write", Path: name, Err: syscall.ENOSPC})
	}
	return b.Bucket.Upload(ctx, name, r, o...)
}

// TestFullDisk reports a full disk at the first try, once per file, and resumes when there is space.
func TestFullDisk(t *testing.T) {
	var said []string
	d := &Destination{Bucket: &fullDisk{Bucket: objstore.NewInMemBucket(), left: 3}, Name: "file:///dump", Patience: time.Minute, Observe: func(e telemetry.Event) {
		said = append(said, string(e.Kind)+": "+e.Text)
	}}
	f, err := d.put(t.Context(), "a", []byte("text"))
	if err != nil {
		t.Fatal(err)
	}
	if len(said) != 1 || !strings.HasPrefix(said[0], "retry: the disk of file:///dump is full: free space there") || !strings.Contains(said[0], "no space left on device") {
		t.Errorf("said %q", said)
	}
	if _, err := d.load(t.Context(), f, nil); err != nil {
		t.Error(err)
	}
	if _, err := d.load(t.Context(), File{Name: "b", Size: 4}, nil); !errors.Is(err, errMissing) || len(said) != 1 {
		t.Errorf("a missing file: %v, said %q", err, said)
	}
	d.Patience, d.Bucket.(*fullDisk).left = time.Millisecond, 1000
	if _, err := d.put(t.Context(), "c", nil); !errors.Is(err, syscall.ENOSPC) || len(said) != 2 {
		t.Errorf("%v, said %q", err, said)
	}
}

// TestTableDir keeps the directories of tables apart whose names differ.
func TestTableDir(t *testing.T) {
	if got := tableDir("shop", "orders_2"); got != "tables/shop.orders_2" {
		t.Error(got)
	}
	seen := make(map[string]string)
	for _, name := range []string{"a", "A", "ä", "a.b", "a b", "../x", "..", strings.Repeat("x", 64), strings.Repeat("日", 64), "a\x00b", "a/b", "a_b"} {
		for _, schema := range []string{"s", "S", "s.a", strings.Repeat("ü", 64)} {
			dir := tableDir(schema, name)
			folded := strings.ToLower(dir)
			if other := seen[folded]; other != "" || strings.Count(dir, "/") != 1 || len(dir) > 150 || strings.Contains(dir, "/..") {
				t.Errorf("%s.%s has the directory %s, like %s", schema, name, dir, other)
			}
			seen[folded] = schema + "." + name
		}
	}
}

// testManifest is a manifest of one table with two chunks.
func testManifest() *Manifest {
	f := File{Name: "tables/shop.orders/0.zst", Size: 7, SHA256: "00"}
	upto := mysqlwire.TextRow{[]byte("5")}
	return &Manifest{ID: "x", Source: "mariadb 1", Tables: []*Table{{
		Schema: "shop", Name: "orders", Shape: testTable, Create: File{Name: "tables/shop.orders/schema.sql"},
		Chunks: []*Chunk{{Upto: upto, Done: true, Rows: 5, Files: []File{f}}, {After: upto, Done: true, Files: []File{}}},
	}}}
}

// TestManifest decodes manifests that were changed: they are refused.
func TestManifest(t *testing.T) {
	text, err := testManifest().encode()
	if err != nil {
		t.Fatal(err)
	}
	var pretty bytes.Buffer
	if err := json.Indent(&pretty, text, "", "  "); err != nil {
		t.Fatal(err)
	}
	for _, same := range [][]byte{text, pretty.Bytes()} {
		m, err := decodeManifest(same)
		if err != nil || len(m.Tables[0].Chunks) != 2 || m.Tables[0].finished() != nil {
			t.Errorf("%v: %s", err, same)
		}
	}
	for want, change := range map[string]func(*Manifest){
		"does not start at the end": func(m *Manifest) { m.Tables[0].Chunks[1].After = nil },
		"a key of 2 columns":        func(m *Manifest) { m.Tables[0].Chunks[0].Upto = mysqlwire.TextRow{nil, nil} },
		"has a file of the name":    func(m *Manifest) { m.Tables[0].Chunks[0].Files[0].Name = "../../etc/passwd" },
		"definition has the name":   func(m *Manifest) { m.Tables[0].Create.Name = "/etc/passwd" },
		"columns are missing":       func(m *Manifest) { m.Tables[0].Shape = nil },
		"its key has column 7": func(m *Manifest) {
			shape := *testTable
			shape.Key = []int{7}
			m.Tables[0].Shape = &shape
		},
	} {
		m := testManifest()
		change(m)
		text, err := m.encode()
		if err == nil {
			_, err = decodeManifest(text)
		}
		if !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	for want, text := range map[string]string{
		"version 2 of the format":         strings.Replace(string(text), `"version":1`, `"version":2`, 1),
		"not the manifest of a dump":      `{"format": "other", "version": 1}`,
		"truncated or changed":            string(text[:len(text)/2]),
		"is not the one that it contains": strings.Replace(string(text), `"shop"`, `"shap"`, 1),
	} {
		if _, err := decodeManifest([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	unfinished := testManifest()
	unfinished.Tables[0].Chunks[1].Done = false
	d := memory()
	for _, step := range []struct{ name, want string }{{partialName, "is unfinished: repeat the command"}, {manifestName, "chunk 1 is missing"}} {
		text, err := unfinished.encode()
		if err == nil {
			_, err = d.put(t.Context(), step.name, text)
		}
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Open(t.Context(), *d); err == nil || !strings.Contains(err.Error(), step.want) {
			t.Errorf("got %v, want %q", err, step.want)
		}
	}
}

// TestChunkExpands expects a file that decompresses to more than its chunk has to be an error before it takes memory.
func TestChunkExpands(t *testing.T) {
	to := memory()
	w, err := newChunkWriter(to)
	if err != nil {
		t.Fatal(err)
	}
	w.begin(func(int) string { return "chunk" })
	huge := &rowstream.Batch{}
	huge.Reset(2)
	huge.AppendRow(mysqlwire.TextRow{[]byte("1"), make([]byte, 64<<20)})
	if err := w.write(t.Context(), huge); err != nil {
		t.Fatal(err)
	}
	files, err := w.end(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	r, err := newChunkReader(to)
	if err != nil {
		t.Fatal(err)
	}
	defer r.close()
	r.begin(&Chunk{Rows: 10, Bytes: 1000}, 2)
	_, err = r.read(t.Context(), files[0], 2, rowstream.DefaultBatchBytes, func(*rowstream.Batch) (bool, error) { return true, nil })
	if !errors.Is(err, errTooLong) || cap(r.text) > 2*keptBytes {
		t.Errorf("%v after %d bytes of text", err, cap(r.text))
	}
}

// TestNullObject expects a manifest with a null among its objects to be damaged.
func TestNullObject(t *testing.T) {
	text, err := (&Manifest{Objects: []*inventory.Object{nil}}).encode()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := decodeManifest(text); !errors.Is(err, ErrDamaged) {
		t.Errorf("got %v", err)
	}
}

// FuzzManifest reads arbitrary manifests with the right checksum: an error, or tables whose chunks can be read without a panic.
func FuzzManifest(f *testing.F) {
	text, err := json.Marshal(testManifest())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add([]byte(`{"tables": [{"schema": "a", "name": "b", "shape": {"Columns": [{"Type": "int"}]}, "chunks": [null]}, null]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		defer alloctest.Bounded(t, 64<<20)()
		var compact bytes.Buffer
		if json.Compact(&compact, text) != nil {
			t.Skip("not JSON")
		}
		whole, err := json.Marshal(envelope{Format: format, Version: Version, SHA256: sumOf(compact.Bytes()), Dump: compact.Bytes()})
		if err != nil {
			t.Skip(err)
		}
		m, err := decodeManifest(whole)
		if err != nil {
			return
		}
		d := &Dump{from: *memory(), m: m}
		v, err := d.Snapshot(t.Context(), 1, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = v.Close() }()
		for _, table := range m.Tables {
			if table.finished() != nil {
				continue
			}
			c, err := v.Reader(0).Cut(t.Context(), table.Shape, 1, rowstream.Chunk{})
			if err != nil {
				continue // several tables of a name
			}
			for range v.Reader(0).Read(context.Background(), table.Shape, c, rowstream.ReadOptions{}) {
			}
		}
	})
}

// FuzzChunkFile reads arbitrary files of a chunk with the right checksum: an error, or rows within the chunk's size, and
// never memory beyond it.
func FuzzChunkFile(f *testing.F) {
	to := memory()
	w, err := newChunkWriter(to)
	if err != nil {
		f.Fatal(err)
	}
	w.begin(func(int) string { return "chunk" })
	rows := &rowstream.Batch{}
	rows.Reset(2)
	for i := range 100 {
		rows.AppendRow(mysqlwire.TextRow{[]byte(strconv.Itoa(i)), bytes.Repeat([]byte{'\t', 0, '\\'}, i)})
	}
	if err := w.write(f.Context(), rows); err != nil {
		f.Fatal(err)
	}
	files, err := w.end(f.Context())
	if err != nil {
		f.Fatal(err)
	}
	text, err := to.load(f.Context(), files[0], nil)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text, uint16(100), uint16(20000), uint8(2))
	f.Add(text[:len(text)/2], uint16(1), uint16(0), uint8(1))
	f.Add([]byte{0x28, 0xb5, 0x2f, 0xfd, 0x04, 0x58, 0x01, 0x00, 0x00}, uint16(1), uint16(1), uint8(3))
	r, err := newChunkReader(to)
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(r.close)
	f.Fuzz(func(t *testing.T, text []byte, rows, size uint16, columns uint8) {
		defer alloctest.Bounded(t, 64<<20)()
		file, err := to.put(t.Context(), "chunk", text)
		if err != nil {
			t.Fatal(err)
		}
		k := &Chunk{Rows: int64(rows), Bytes: int64(size)}
		wide := 1 + int(columns%8)
		r.begin(k, wide)
		allowed, got := r.left, int64(0)
		_, err = r.read(t.Context(), file, wide, rowstream.DefaultBatchBytes, func(b *rowstream.Batch) (bool, error) {
			var row mysqlwire.TextRow
			for at := 0; at < len(b.Bytes); {
				next, err := b.Row(at, &row)
				if err != nil {
					return false, err
				}
				for _, v := range row {
					got += int64(len(v))
				}
				at = next
			}
			return true, nil
		})
		if err == nil && got > allowed {
			t.Errorf("%d bytes of values of %d", got, allowed)
		}
		if cap(r.text) > 4*keptBytes {
			t.Errorf("%d bytes are kept", cap(r.text))
		}
	})
}
