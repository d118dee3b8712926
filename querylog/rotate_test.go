package querylog_test

import (
	"compress/gzip"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/taredb/tare/internal/testwait"
	"github.com/taredb/tare/querylog"
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

// rotatedFiles returns the files whose names are path and a time, those under way included.
func rotatedFiles(t *testing.T, path string) []string {
	t.Helper()
	names, err := filepath.Glob(path + ".*")
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// TestRotateBySize writes some hundred kilobytes in files of twenty: the files together have all records,
// none exceeds the size, and the old ones are compressed.
func TestRotateBySize(t *testing.T) {
	for _, c := range []querylog.Compression{querylog.Plain, querylog.Gzip, querylog.Zstd} {
		t.Run(c.String(), func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "query.log")
			l := mustNew(t, querylog.Options{FlushBytes: 2000, Sinks: []querylog.SinkOptions{{
				Path: path, Rotation: querylog.Rotation{Bytes: 20_000, Compression: c},
			}}})
			const offered = 500
			for range offered {
				l.Log(sample())
			}
			// A second logger compresses what the first one had no time for.
			mustClose(t, l)
			second := mustNew(t, querylog.Options{Sinks: []querylog.SinkOptions{{Path: path, Rotation: querylog.Rotation{Bytes: 20_000, Compression: c}}}})
			suffix := map[querylog.Compression]string{querylog.Gzip: ".gz", querylog.Zstd: ".zst"}[c]
			testwait.Equal(t, "files not yet compressed", 0, func() (plain int) {
				for _, name := range rotatedFiles(t, path) {
					if !strings.HasSuffix(name, suffix) {
						plain++
					}
				}
				return plain
			})
			mustClose(t, second)
			names := rotatedFiles(t, path)
			if len(names) < 5 {
				t.Fatalf("%d rotated files", len(names))
			}
			var all []byte
			for _, name := range append(names, path) {
				b := readLog(t, name)
				if len(b) > 20_000 {
					t.Errorf("%s holds %d bytes", name, len(b))
				}
				all = append(all, b...)
			}
			checkSums(t, sinkStats(t, l, path), offered, all)
			if info, err := os.Stat(names[0]); err != nil || info.Mode().Perm() != 0o600 {
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
		l := mustNew(t, querylog.Options{Sinks: []querylog.SinkOptions{{Path: path, Rotation: querylog.Rotation{Age: 24 * time.Hour, Keep: 2}}}})
		for range 5 {
			for range 3 {
				l.Log(sample())
				time.Sleep(8 * time.Hour)
			}
		}
		synctest.Wait()
		mustClose(t, l)
		names := rotatedFiles(t, path)
		if len(names) != 2 {
			t.Fatalf("%d rotated files, want 2", len(names))
		}
		for _, name := range append(names, path) {
			if n, _ := tally(t, readLog(t, name)); n != 3 {
				t.Errorf("%s: %d records, want 3", name, n)
			}
		}
	})
}
