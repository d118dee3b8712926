package dump

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/thanos-io/objstore"

	"github.com/taredb/tare/internal/move/telemetry"
	"github.com/taredb/tare/internal/retry"
)

// A Destination is where a dump is: a directory or a prefix of an S3 bucket, which nothing else uses.
type Destination struct {
	Bucket objstore.Bucket
	Name   string // for messages: the URL
	Dir    string // the local directory of the bucket, whose files are flushed to disk; empty: it has none

	Patience time.Duration // how long a bucket that does not respond is awaited; 0: DefaultPatience

	Observe func(telemetry.Event) // is called when an operation fails and is repeated; nil: it is not
}

// DefaultPatience is the default of Destination.Patience.
const DefaultPatience = time.Minute

// maxManifestBytes bounds the size of a manifest that is read.
const maxManifestBytes = 1 << 30

// slowest is the rate in bytes per second below which a bucket counts as one that does not respond.
const slowest = 128 << 10

// retry calls try until it succeeds, or the patience is over. A try that transfers up to the given bytes has a deadline.
func (d *Destination) retry(ctx context.Context, bytes int64, try func(context.Context) error) error {
	patience := cmp.Or(d.Patience, DefaultPatience)
	limit := patience + time.Duration(bytes/slowest)*time.Second
	said := ""
	return retry.Within(ctx, patience, func() error {
		ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("it took longer than %v", limit))
		defer cancel()
		err := try(ctx)
		if err != nil && ctx.Err() != nil {
			err = fmt.Errorf("%w: %w", context.Cause(ctx), err)
		}
		said = d.repeats(err, said, patience)
		return err
	})
}

// repeats reports an operation that has failed and is repeated, unless the error is the same as before: its text is said. It returns the
// text of the error.
func (d *Destination) repeats(err error, said string, patience time.Duration) string {
	var permanent *backoff.PermanentError
	if err == nil || errors.As(err, &permanent) || d.Observe == nil {
		return ""
	}
	text := fmt.Sprintf("%s: %v; it is tried again for %v", d.Name, err, patience)
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		text = fmt.Sprintf("the disk of %s is full: free space there, or dump to another one; writing is tried again for %v: %v", d.Name, patience, err)
	}
	if text != said {
		d.Observe(telemetry.Event{Kind: telemetry.EventRetry, Text: text})
	}
	return text
}

// put uploads a file, and flushes it to disk. A manifest in a directory replaces the earlier one at once: the process may be killed
// while it writes.
func (d *Destination) put(ctx context.Context, name string, text []byte) (File, error) {
	as := name
	if d.Dir != "" && (name == partialName || name == manifestName) {
		as += newSuffix
	}
	err := d.retry(ctx, int64(len(text)), func(ctx context.Context) error { return d.Bucket.Upload(ctx, as, bytes.NewReader(text)) })
	if err == nil && as != name {
		if err = flushOne(filepath.Join(d.Dir, as)); err == nil {
			err = os.Rename(filepath.Join(d.Dir, as), filepath.Join(d.Dir, name))
		}
	}
	if err == nil {
		err = d.flush(name)
	}
	if err != nil {
		return File{}, fmt.Errorf("write %s to %s: %w", name, d.Name, err)
	}
	return File{Name: name, Size: int64(len(text)), SHA256: sumOf(text)}, nil
}

// errMissing means that a file does not exist.
var errMissing = errors.New("the file is missing")

// get reads a file of at most limit bytes into a buffer, which it returns.
func (d *Destination) get(ctx context.Context, name string, into []byte, limit int64) ([]byte, error) {
	b := bytes.NewBuffer(into[:0])
	err := d.retry(ctx, limit, func(ctx context.Context) error {
		b.Reset()
		r, err := d.Bucket.Get(ctx, name)
		if err != nil {
			if d.Bucket.IsObjNotFoundErr(err) {
				return retry.Final(errMissing)
			}
			return err
		}
		_, err = b.ReadFrom(io.LimitReader(r, limit+1))
		if err != nil && d.Bucket.IsObjNotFoundErr(err) { // S3 reports it at the first read
			err = retry.Final(errMissing)
		}
		return errors.Join(err, r.Close())
	})
	switch {
	case err != nil:
		return nil, fmt.Errorf("read %s of %s: %w", name, d.Name, err)
	case int64(b.Len()) > limit:
		return nil, fmt.Errorf("read %s of %s: %w: the file has more than %d bytes", name, d.Name, ErrDamaged, limit)
	}
	return b.Bytes(), nil
}

// load reads a file of the dump and compares it with its checksum.
func (d *Destination) load(ctx context.Context, f File, into []byte) ([]byte, error) {
	text, err := d.get(ctx, f.Name, into, f.Size)
	switch {
	case errors.Is(err, errMissing):
		err = fmt.Errorf("%w: %w", ErrDamaged, err)
	case err == nil && int64(len(text)) < f.Size:
		err = fmt.Errorf("read %s of %s: %w: the file is truncated: %d bytes of %d", f.Name, d.Name, ErrDamaged, len(text), f.Size)
	case err == nil && sumOf(text) != f.SHA256:
		err = fmt.Errorf("read %s of %s: %w: its SHA-256 is not that of the manifest: it was changed, or is of another dump", f.Name, d.Name, ErrDamaged)
	}
	if errors.Is(err, ErrDamaged) {
		err = fmt.Errorf("%w; put the file back from another copy of the dump, or leave its table out by option exclude", err)
	}
	return text, err
}

// intact reports whether a file exists and has its checksum.
func (d *Destination) intact(ctx context.Context, f File) (same bool, err error) {
	err = d.retry(ctx, f.Size, func(ctx context.Context) error {
		same = false
		sum := sha256.New()
		r, err := d.Bucket.Get(ctx, f.Name)
		if err == nil {
			_, err = io.Copy(sum, io.LimitReader(r, f.Size+1))
			defer func() { _ = r.Close() }() // it was only read
		}
		if err != nil && d.Bucket.IsObjNotFoundErr(err) { // S3 reports it at the first read
			return nil
		}
		same = err == nil && hex.EncodeToString(sum.Sum(nil)) == f.SHA256
		return err
	})
	if err != nil {
		err = fmt.Errorf("read %s of %s: %w", f.Name, d.Name, err)
	}
	return same, err
}

// manifest reads a manifest; nil if there is none of the name.
func (d *Destination) manifest(ctx context.Context, name string) (*Manifest, error) {
	text, err := d.get(ctx, name, nil, maxManifestBytes)
	if errors.Is(err, errMissing) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	m, err := decodeManifest(text)
	if err != nil {
		return nil, fmt.Errorf("read %s of %s: %w", name, d.Name, err)
	}
	return m, nil
}

// noLinks returns an error if a local directory has a symbolic link: to write or delete below it changes files outside of the dump.
func (d *Destination) noLinks() error {
	if d.Dir == "" {
		return nil
	}
	// The directory itself may be a link.
	err := filepath.WalkDir(filepath.Clean(d.Dir)+string(filepath.Separator)+".", func(path string, e fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case errors.Is(err, fs.ErrPermission) && e != nil && e.IsDir():
			return filepath.SkipDir // nothing is written there
		case err == nil && e.Type()&fs.ModeSymlink != 0:
			return fmt.Errorf("%s is a symbolic link: choose an empty directory", path)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("dump to %s: %w", d.Name, err)
	}
	return nil
}

// foreign returns the name of something in the destination; empty if there is nothing.
func (d *Destination) foreign(ctx context.Context) (found string, err error) {
	err = d.retry(ctx, 0, func(ctx context.Context) error {
		found = ""
		return d.Bucket.Iter(ctx, "", func(name string) error {
			switch name {
			case "lost+found/": // of a file system
			case partialName + newSuffix, manifestName + newSuffix: // of an interrupted run, which the next replaces
			default:
				found = name
			}
			return nil
		})
	})
	if err != nil {
		err = fmt.Errorf("list %s: %w", d.Name, err)
	}
	return found, err
}

// remove deletes a file, which may have been deleted by an earlier try.
func (d *Destination) remove(ctx context.Context, name string) error {
	return d.retry(ctx, 0, func(ctx context.Context) error {
		err := d.Bucket.Delete(ctx, name)
		if err != nil && (d.Bucket.IsObjNotFoundErr(err) || errors.Is(err, fs.ErrNotExist)) {
			return nil
		}
		return err
	})
}

// removeOthers deletes the files that are not in the manifest: those of interrupted runs.
func (d *Destination) removeOthers(ctx context.Context, m *Manifest) error {
	keep := make(map[string]bool)
	for _, t := range m.Tables {
		keep[t.Create.Name] = true
		for _, c := range t.Chunks {
			for _, f := range c.Files {
				keep[f.Name] = true
			}
		}
	}
	var others []string
	err := d.retry(ctx, maxManifestBytes, func(ctx context.Context) error {
		others = nil
		return d.Bucket.Iter(ctx, tablesDir, func(name string) error {
			if !keep[name] {
				others = append(others, name)
			}
			return nil
		}, objstore.WithRecursiveIter())
	})
	for _, name := range others {
		if err == nil {
			err = d.remove(ctx, name)
		}
	}
	if err != nil {
		return fmt.Errorf("delete files of an interrupted run from %s: %w", d.Name, err)
	}
	return nil
}

// flush flushes a file and its directories to disk, if the destination is a local directory.
func (d *Destination) flush(name string) error {
	if d.Dir == "" {
		return nil
	}
	for {
		if err := flushOne(filepath.Join(d.Dir, name)); err != nil {
			return fmt.Errorf("flush it to disk: %w", err)
		}
		if name == "." {
			return nil
		}
		name = filepath.Dir(name)
	}
}

func flushOne(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

const (
	tablesDir   = "tables"
	chunkSuffix = ".zst"
	maxDirName  = 100
)

// tableDir returns the directory of a table. Names with characters other than a-z, 0-9 and _, which file systems may not keep apart, get
// a checksum, and long ones too.
func tableDir(schema, name string) string {
	dir := plainName(schema) + "." + plainName(name)
	if dir == schema+"."+name && len(dir) <= maxDirName {
		return tablesDir + "/" + dir
	}
	return tablesDir + "/" + dir[:min(len(dir), maxDirName)] + "-" + sumOf([]byte(schema + "\x00" + name))[:16]
}

// plainName replaces all characters except a-z, 0-9 and _.
func plainName(s string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '_' {
			return r
		}
		return '_'
	}, s)
}

// dir returns the directory of the table's files.
func (t *Table) dir() string { return tableDir(t.Schema, t.Name) }
