package querylog

import (
	"cmp"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/klauspost/compress/zstd"
)

// readLog reads a log file, compressed or not.
func readLog(t *testing.T, name string) []byte {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var r io.Reader = f
	switch filepath.Ext(name) {
	case ".gz":
		if r, err = gzip.NewReader(f); err != nil {
			t.Fatal(err)
		}
	case ".zst":
		d, err := zstd.NewReader(f)
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		r = d
	}
	b, err := io.ReadAll(r)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return b
}

// TestRotateBySize writes some hundred kilobytes in files of twenty: the files together have all records,
// none exceeds the size, and the old ones are compressed.
func TestRotateBySize(t *testing.T) {
	for _, c := range []Compression{Plain, Gzip, Zstd} {
		t.Run(c.String(), func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "query.log")
			l := mustNew(t, Options{FlushBytes: 2000, Sinks: []SinkOptions{{
				Path: path, Rotation: Rotation{Bytes: 20_000, Compression: c},
			}}})
			const offered = 500
			for range offered {
				l.Log(sample())
			}
			// A second logger processes the rotated files: the first one exits before.
			mustClose(t, l)
			o, err := openFile(path, DefaultFileMode, Rotation{Bytes: 20_000, Compression: c}, quiet())
			if err != nil {
				t.Fatal(err)
			}
			o.wg.Wait()
			if _, err := o.close(); err != nil {
				t.Fatal(err)
			}
			names, err := rotated(path)
			if err != nil || len(names) < 5 {
				t.Fatalf("%d rotated files: %v", len(names), err)
			}
			var all []byte
			for _, name := range append(names, path) {
				if name != path && filepath.Ext(name) != cmp.Or(compressionSuffixes[c], filepath.Ext(name)) {
					t.Errorf("%s is not compressed", name)
				}
				b := readLog(t, name)
				if len(b) > 20_000 {
					t.Errorf("%s holds %d bytes", name, len(b))
				}
				all = append(all, b...)
			}
			checkSums(t, sinkStats(t, l, path), offered, all)
			if info, err := os.Stat(names[0]); err != nil || info.Mode().Perm() != DefaultFileMode {
				t.Errorf("mode %v, %v", info.Mode(), err)
			}
		})
	}
}

// TestRotateByAge logs for three days with one file per day, of which two old ones are kept.
func TestRotateByAge(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(dir, "query.log")
		l := mustNew(t, Options{Sinks: []SinkOptions{{Path: path, Rotation: Rotation{Age: 24 * time.Hour, Keep: 2}}}})
		for range 5 {
			for range 3 {
				l.Log(sample())
				time.Sleep(8 * time.Hour)
			}
		}
		synctest.Wait()
		mustClose(t, l)
		names, err := rotated(path)
		if err != nil || len(names) != 2 {
			t.Fatalf("%d rotated files, want 2: %v", len(names), err)
		}
		for _, name := range append(names, path) {
			if n, _ := tally(t, readLog(t, name)); n != 3 {
				t.Errorf("%s: %d records, want 3", name, n)
			}
		}
	})
}

// TestRotatedNames distinguishes the files of a rotation from other files in the directory.
func TestRotatedNames(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "query.log")
	at := time.Date(2026, 3, 4, 5, 6, 7, 89e6, time.UTC)
	for i, want := range []string{
		"query.log.20260304T050607.089Z", "query.log.20260304T050607.089Z-001", "query.log.20260304T050607.089Z-002",
	} {
		name := rotatedPath(path, at)
		if filepath.Base(name) != want {
			t.Errorf("got %s, want %s", name, want)
		}
		if i == 1 {
			name += ".zst" // a compressed file occupies the name too
		}
		if err := os.WriteFile(name, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, other := range []string{"query.log", "query.log.1", "query.log.20260304T050607.089Z.tmp", "query.log.seq", "other.20260304T050607.089Z"} {
		if err := os.WriteFile(filepath.Join(dir, other), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	names, err := rotated(path)
	if err != nil || len(names) != 3 {
		t.Errorf("got %v, %v", names, err)
	}
}

// TestCompressIsCancelled cancels a compression: only the original remains.
func TestCompressIsCancelled(t *testing.T) {
	name := filepath.Join(t.TempDir(), "query.log")
	if err := os.WriteFile(name, []byte(strings.Repeat("x", 1<<20)), 0o600); err != nil {
		t.Fatal(err)
	}
	gone := errors.New("gone")
	ctx, cancel := newCancelled(t, gone)
	defer cancel()
	if err := compressFile(ctx, name, Zstd); err == nil {
		t.Error("got no error")
	}
	if names, _ := filepath.Glob(name + "*"); len(names) != 1 || names[0] != name {
		t.Errorf("left behind: %v", names)
	}
}
