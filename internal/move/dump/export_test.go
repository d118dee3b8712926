package dump

import (
	"bytes"
	"context"
	"errors"
	"io"

	"github.com/thanos-io/objstore"

	"github.com/taredb/tare/internal/retry"
)

// Names of files.
const (
	ManifestName = manifestName
	PartialName  = partialName
	NewSuffix    = newSuffix
)

// Put writes a manifest.
func (d *Destination) Put(ctx context.Context, name string, m *Manifest) error {
	text, err := m.encode()
	if err == nil {
		_, err = d.put(ctx, name, text)
	}
	return err
}

// A BrokenBucket fails at a call, and at those after it if it stays broken.
type BrokenBucket struct {
	objstore.Bucket
	At, Calls int
	Stays     bool
	Half      bool // the failing upload writes half of the file, as that of a killed process
}

var ErrBroken = errors.New("the bucket is broken")

func (b *BrokenBucket) next() error {
	if b.Calls++; b.Calls == b.At || b.Stays && b.Calls > b.At {
		return retry.Final(ErrBroken)
	}
	return nil
}

func (b *BrokenBucket) Upload(ctx context.Context, name string, r io.Reader, o ...objstore.ObjectUploadOption) error {
	if err := b.next(); err != nil {
		if b.Half && b.Calls == b.At {
			text, readErr := io.ReadAll(r)
			err = errors.Join(err, readErr, b.Bucket.Upload(ctx, name, bytes.NewReader(text[:len(text)/2]), o...))
		}
		return err
	}
	return b.Bucket.Upload(ctx, name, r, o...)
}

func (b *BrokenBucket) Get(ctx context.Context, name string) (io.ReadCloser, error) {
	if err := b.next(); err != nil {
		return nil, err
	}
	return b.Bucket.Get(ctx, name)
}

func (b *BrokenBucket) Iter(ctx context.Context, dir string, f func(string) error, o ...objstore.IterOption) error {
	if err := b.next(); err != nil {
		return err
	}
	return b.Bucket.Iter(ctx, dir, f, o...)
}

func (b *BrokenBucket) Delete(ctx context.Context, name string) error {
	if err := b.next(); err != nil {
		return err
	}
	return b.Bucket.Delete(ctx, name)
}
