package history

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

// rollupPrefix is where rollups lie in the bucket: under the hash of the instance's labels, and under
// the epoch of the directory that they were made in. Whoever shares the bucket has other labels; a gateway that
// has lost its directory begins another epoch, and its sums add up with those of the first.
const rollupPrefix = "rollups"

// labelsHash names a set of labels.
func labelsHash(labels map[string]string) string {
	text, err := json.Marshal(labels) // in the order of their names
	if err != nil {
		panic("BUG: history: labels that are not JSON: " + err.Error())
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:16])
}

// A remoteRollups is the rollups in the bucket of one directory of one gateway.
type remoteRollups struct {
	instance, epoch string
	files           []rollupName
}

// listRollups lists what the bucket has of one gateway, or of all when instance is empty.
func listRollups(ctx context.Context, bucket objstore.Bucket, instance string) ([]remoteRollups, error) {
	var out []remoteRollups
	instances := []string{instance}
	if instance == "" {
		instances = nil
		if err := bucket.Iter(ctx, rollupPrefix, func(name string) error {
			instances = append(instances, path.Base(name))
			return nil
		}); err != nil {
			return nil, fmt.Errorf("list rollups of all gateways: %w", err)
		}
	}
	for _, in := range instances {
		var epochs []string
		dir := path.Join(rollupPrefix, in)
		if err := bucket.Iter(ctx, dir, func(name string) error {
			if _, err := ulid.Parse(path.Base(name)); err == nil && strings.HasSuffix(name, "/") {
				epochs = append(epochs, path.Base(name))
			}
			return nil
		}); err != nil {
			return nil, fmt.Errorf("list rollups: %w", err)
		}
		for _, epoch := range epochs {
			r := remoteRollups{instance: in, epoch: epoch}
			if err := bucket.Iter(ctx, path.Join(dir, epoch), func(name string) error {
				if n, ok := parseRollupName(path.Base(name)); ok {
					r.files = append(r.files, n)
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

// openRemote opens an object as a rollup. Its columns are read as they are asked for.
func openRemote(ctx context.Context, bucket objstore.Bucket, name string, n rollupName) (*rollupFile, error) {
	attributes, err := bucket.Attributes(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("open rollup %s: %w", name, err)
	}
	f, err := n.open(&objectReader{ctx: ctx, bucket: bucket, name: name}, attributes.Size)
	if err != nil {
		return nil, fmt.Errorf("open rollup %s: %w", name, err)
	}
	f.remote = true
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
