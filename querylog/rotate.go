package querylog

import (
	"cmp"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/taredb/tare/internal/localstate"
)

// Compression is the treatment of rotated files.
type Compression uint8

// The compressions.
const (
	Plain Compression = iota // rotated files stay as they are
	Gzip
	Zstd
)

var compressionSuffixes = [...]string{Plain: "", Gzip: ".gz", Zstd: ".zst"}

// String returns the compression's name in options.
func (c Compression) String() string {
	switch c {
	case Plain:
		return "none"
	case Gzip:
		return "gzip"
	case Zstd:
		return "zstd"
	}
	return "compression " + strconv.Itoa(int(c))
}

// Rotation configures when a file is replaced. The old one gets the time as a suffix, as in
// query.log.20260304T050607.089Z; the zero value never rotates.
type Rotation struct {
	Bytes int64 // rotate before a file grows past this; 0: no limit

	// Age is the length of the periods, counted from 1970 in UTC, that a file covers; 0: no limit. A file is
	// rotated when the first batch of a later period is written: an idle log does not wake the process.
	Age time.Duration

	Keep        int // rotated files to keep; 0: all
	Compression Compression
}

func (r *Rotation) validate() error {
	switch {
	case r.Bytes < 0 || r.Age < 0 || r.Keep < 0:
		return errors.New("rotation: a limit is negative")
	case r.Compression > Zstd:
		return fmt.Errorf("rotation: %v is unknown", r.Compression)
	case r.Bytes == 0 && r.Age == 0 && *r != Rotation{}:
		return errors.New("rotation: neither a size nor an age is set")
	}
	return nil
}

// due reports whether a file of size bytes, last written at at, must be replaced before n bytes are written
// at now.
func (r *Rotation) due(size int64, at, now time.Time, n int) bool {
	if size == 0 {
		return false
	}
	return r.Bytes > 0 && size+int64(n) > r.Bytes ||
		r.Age > 0 && period(at, r.Age) != period(now, r.Age)
}

func period(t time.Time, age time.Duration) int64 { return t.UnixNano() / int64(age) }

// rotatedName matches the suffix of a rotated file's name. Names sort by time.
var rotatedName = regexp.MustCompile(`^\.\d{8}T\d{6}\.\d{3}Z(-\d{3})?(\.gz|\.zst)?$`)

// rotatedPath returns an unused name for the file at path, rotated at t.
func rotatedPath(path string, t time.Time) string {
	name := path + "." + t.UTC().Format("20060102T150405.000Z")
	for i := 0; ; i++ {
		try := name
		if i > 0 {
			try += fmt.Sprintf("-%03d", i)
		}
		if !taken(try) {
			return try
		}
	}
}

// taken reports whether a rotated file has the name, compressed or not.
func taken(name string) bool {
	return slices.ContainsFunc(compressionSuffixes[:], func(suffix string) bool {
		_, err := os.Lstat(name + suffix)
		return !errors.Is(err, fs.ErrNotExist)
	})
}

// rotated lists the rotated files of path, oldest first.
func rotated(path string) ([]string, error) {
	dir, base := filepath.Split(path)
	entries, err := os.ReadDir(cmp.Or(dir, "."))
	if err != nil {
		return nil, fmt.Errorf("list rotated query logs: %w", err)
	}
	var names []string
	for _, e := range entries {
		if rest, ok := strings.CutPrefix(e.Name(), base); ok && rotatedName.MatchString(rest) {
			names = append(names, dir+e.Name())
		}
	}
	slices.Sort(names)
	return names, nil
}

// tidy removes the excess rotated files and compresses the others.
func (r *Rotation) tidy(ctx context.Context, path string) error {
	names, err := rotated(path)
	if err != nil {
		return err
	}
	var errs []error
	if r.Keep > 0 && len(names) > r.Keep {
		for _, name := range names[:len(names)-r.Keep] {
			errs = append(errs, os.Remove(name))
		}
		names = names[len(names)-r.Keep:]
	}
	for _, name := range names {
		if ext := filepath.Ext(name); r.Compression != Plain && ext != ".gz" && ext != ".zst" {
			if err := compressFile(ctx, name, r.Compression); err != nil {
				errs = append(errs, fmt.Errorf("compress %s: %w", name, err))
			}
		}
	}
	return errors.Join(errs...)
}

// compressFile replaces the named file by a compressed one. The original stays until that is complete and on
// disk.
func compressFile(ctx context.Context, name string, c Compression) error {
	in, err := os.Open(name)
	if err != nil {
		return err
	}
	defer in.Close()
	info, err := in.Stat()
	if err != nil {
		return err
	}
	temp := name + ".tmp"
	out, err := os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, info.Mode().Perm())
	if err != nil {
		return err
	}
	if err = out.Chmod(info.Mode().Perm()); err == nil { // whatever the process's umask is
		err = compress(ctx, out, in, c)
	}
	if err != nil {
		return errors.Join(err, out.Close(), os.Remove(temp))
	}
	if err := localstate.Replace(out, name+compressionSuffixes[c]); err != nil {
		return err
	}
	return os.Remove(name)
}

func compress(ctx context.Context, out io.Writer, in io.Reader, c Compression) error {
	var w io.WriteCloser = gzip.NewWriter(out)
	if c == Zstd {
		var err error
		if w, err = zstd.NewWriter(out, zstd.WithEncoderConcurrency(1)); err != nil {
			return err
		}
	}
	_, err := io.Copy(w, &cancelReader{ctx, in})
	return errors.Join(err, w.Close())
}

// A cancelReader fails once ctx is done.
type cancelReader struct {
	ctx context.Context
	r   io.Reader
}

func (c *cancelReader) Read(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	return c.r.Read(p)
}
