package bucketurl

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/thanos-io/objstore"
)

// TestParameterErrors names the first wrong parameter by name, in each parse the same.
func TestParameterErrors(t *testing.T) {
	for range 20 {
		_, err := Parse("s3://bucket/prefix?skip_verify=a&path_style=b&insecure=c")
		if err == nil || !strings.Contains(err.Error(), "insecure") {
			t.Fatalf("%v, want an error of insecure", err)
		}
	}
}

// TestDirListingCanceled stops a listing of a directory when its context ends: before it, and between directories.
func TestDirListingCanceled(t *testing.T) {
	root := t.TempDir()
	for _, name := range []string{"a/1", "a/2", "b/1", "c/1"} {
		if err := errors.Join(os.MkdirAll(filepath.Join(root, filepath.Dir(name)), 0o700), os.WriteFile(filepath.Join(root, name), nil, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	u, err := Parse("file://" + root)
	if err != nil {
		t.Fatal(err)
	}
	bucket, err := u.Open()
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		after int // names
		want  string
	}{"before": {0, ""}, "in the first directory": {1, "a/1 a/2"}, "never": {100, "a/1 a/2 b/1 c/1"}} {
		ctx, cancel := context.WithCancel(t.Context())
		if c.after == 0 {
			cancel()
		}
		var names []string
		err := bucket.Iter(ctx, "", func(name string) error {
			if names = append(names, name); len(names) == c.after {
				cancel()
			}
			return nil
		}, objstore.WithRecursiveIter())
		if got := strings.Join(names, " "); got != c.want || errors.Is(err, context.Canceled) != (c.after < 100) {
			t.Errorf("%s: %s, %v; want %s", name, got, err, c.want)
		}
		cancel()
	}
}
