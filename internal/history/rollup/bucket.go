package rollup

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"

	"github.com/oklog/ulid/v2"
	"github.com/thanos-io/objstore"
)

// Prefix is the prefix of rollups in the bucket: below it are the hash of the instance's labels, and the
// epoch of the local directory. Other gateways that share the bucket have other labels. A gateway that has
// lost its directory starts another epoch, and the sums of both epochs add up.
const Prefix = "rollups"

// LabelsHash returns the name of a set of labels in the bucket.
func LabelsHash(labels map[string]string) string {
	text, err := json.Marshal(labels) // sorted by name
	if err != nil {
		panic("BUG: history: labels that are not JSON: " + err.Error())
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:16])
}

// A BucketDir lists the rollups that the bucket has of one local directory of one gateway.
type BucketDir struct {
	Instance, Epoch string
	Files           []Name
}

// ListBucket lists the rollups of one gateway in the bucket, or of all when instance is empty.
func ListBucket(ctx context.Context, bucket objstore.Bucket, instance string) ([]BucketDir, error) {
	var out []BucketDir
	instances := []string{instance}
	if instance == "" {
		instances = nil
		if err := bucket.Iter(ctx, Prefix, func(name string) error {
			instances = append(instances, path.Base(name))
			return nil
		}); err != nil {
			return nil, fmt.Errorf("list rollups of all gateways: %w", err)
		}
	}
	for _, in := range instances {
		var epochs []string
		dir := path.Join(Prefix, in)
		if err := bucket.Iter(ctx, dir, func(name string) error {
			if _, err := ulid.Parse(path.Base(name)); err == nil && strings.HasSuffix(name, "/") {
				epochs = append(epochs, path.Base(name))
			}
			return nil
		}); err != nil {
			return nil, fmt.Errorf("list rollups: %w", err)
		}
		for _, epoch := range epochs {
			r := BucketDir{Instance: in, Epoch: epoch}
			if err := bucket.Iter(ctx, path.Join(dir, epoch), func(name string) error {
				if n, ok := ParseName(path.Base(name)); ok {
					r.Files = append(r.Files, n)
				}
				return nil
			}); err != nil {
				return nil, fmt.Errorf("list rollups: %w", err)
			}
			out = append(out, r)
		}
	}
	return out, nil
}

// OpenRemote opens an object as a rollup. Columns are fetched when they are read.
func OpenRemote(ctx context.Context, bucket objstore.Bucket, name string, n Name) (*File, error) {
	attributes, err := bucket.Attributes(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("open rollup %s: %w", name, err)
	}
	f, err := n.open(&objectReader{ctx: ctx, bucket: bucket, name: name}, attributes.Size)
	if err != nil {
		return nil, fmt.Errorf("open rollup %s: %w", name, err)
	}
	f.Remote = true
	return f, nil
}

// An objectReader reads ranges of an object.
type objectReader struct {
	ctx    context.Context //nolint:containedctx // it lives as long as the question
	bucket objstore.Bucket
	name   string
}

var _ io.ReaderAt = (*objectReader)(nil)

// ReadAt implements io.ReaderAt.
func (o *objectReader) ReadAt(b []byte, offset int64) (int, error) {
	r, err := o.bucket.GetRange(o.ctx, o.name, offset, int64(len(b)))
	if err != nil {
		return 0, err
	}
	n, err := io.ReadFull(r, b)
	if errors.Is(err, io.ErrUnexpectedEOF) {
		err = io.EOF
	}
	return n, errors.Join(err, r.Close())
}
