package blocksync

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/thanos-io/objstore"

	"github.com/taredb/tare/internal/testblock"
)

// A hostileBucket lists names at its top that no file system would, and serves all calls below them with the
// objects of one tenant.
type hostileBucket struct {
	objstore.Bucket
	top   []string
	asked []string // requested names below the top
}

func (b *hostileBucket) Iter(ctx context.Context, dir string, f func(string) error, o ...objstore.IterOption) error {
	if dir != "" {
		b.asked = append(b.asked, dir)
		return b.Bucket.Iter(ctx, dir, f, o...)
	}
	for _, name := range b.top {
		if err := f(name); err != nil {
			return err
		}
	}
	return nil
}

func (b *hostileBucket) Get(ctx context.Context, name string) (io.ReadCloser, error) {
	if slices.Contains(strings.Split(name, "/"), "..") {
		b.asked = append(b.asked, name)
	}
	return b.Bucket.Get(ctx, name)
}

// TestHostileTenants lets a bucket list names that point outside of the data directory: none of them is a
// tenant, and no object below them is requested or written.
func TestHostileTenants(t *testing.T) {
	hostile := []string{
		"../", "./", "/", "//", "a b/", "a/../../b/", `..\..\b/`, "a\x00b/", "a\nb/", "é/", "%2e%2e/",
		strings.Repeat("a", MaxTenant+1) + "/", blockID("A").String() + "/", "file",
	}
	dir, data := t.TempDir(), filepath.Join(t.TempDir(), "below", "data")
	tenant := "Team-1_x.y*z'(!)"
	if _, err := (testblock.Shape{Count: 3, Samples: 4}).Write(filepath.Join(dir, tenant), testblock.Options{}); err != nil {
		t.Fatal(err)
	}
	files := objstore.NewInMemBucket()
	if err := objstore.UploadDir(t.Context(), discardLog{}, files, filepath.Join(dir, tenant), tenant); err != nil {
		t.Fatal(err)
	}
	bucket := &hostileBucket{Bucket: files, top: append(slices.Clone(hostile), mimirClusterName+"/", tenant+"/")}
	o := testOptions(t, bucket)
	o.Layout, o.DataDir, o.EagerHeaders, o.Concurrency = LayoutMimir, data, true, 1
	g := newSyncer(t, o)
	if err := g.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := g.Blocks(); len(got) != 1 || got[0].Tenant != tenant {
		t.Errorf("blocks %+v, want one of %q", got, tenant)
	}
	if s := g.Status(); s.Foreign != len(hostile) || s.Stranger != hostile[0] {
		t.Errorf("%d strangers, one of them %q, want %d", s.Foreign, s.Stranger, len(hostile))
	}
	for _, name := range bucket.asked {
		if name != tenant+"/" && !strings.HasPrefix(name, tenant+"/") {
			t.Errorf("%q was listed", name)
		}
	}
	top := filepath.Dir(filepath.Dir(data))
	err := filepath.WalkDir(top, func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() && !strings.HasPrefix(path, filepath.Join(data, tenant)+"/") {
			t.Errorf("%s was written", path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if !g.Blocks()[0].Loaded {
		t.Error("the tenant's own block was not loaded")
	}
}

// discardLog is a go-kit logger that discards everything.
type discardLog struct{}

func (discardLog) Log(...any) error { return nil }

// TestTenantsOption rejects such names from the operator too.
func TestTenantsOption(t *testing.T) {
	for _, name := range []string{"", ".", "..", "a/b", "a,b", strings.Repeat("a", MaxTenant+1)} {
		o := testOptions(t, objstore.NewInMemBucket())
		o.Layout, o.Tenants = LayoutMimir, []string{"fine", name}
		if _, err := New(o); err == nil || !strings.Contains(err.Error(), "is no name of a tenant") {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// TestFilesOutside rejects a meta.json with files outside of the block: with a directory's bucket it could
// probe the size of any file on the machine.
func TestFilesOutside(t *testing.T) {
	dir := t.TempDir()
	id, err := testblock.Shape{Count: 1, Samples: 1}.Write(dir, testblock.Options{External: map[string]string{"a": "b"}})
	if err != nil {
		t.Fatal(err)
	}
	files := objstore.NewInMemBucket()
	for _, path := range []string{"../../../etc/passwd", "/etc/passwd", `..\x`, "chunks/../../x", ""} {
		if err := testblock.EditMeta(filepath.Join(dir, id), func(m map[string]any) {
			m["thanos"].(map[string]any)["files"] = []map[string]any{{"rel_path": path, "size_bytes": 1}}
		}); err != nil {
			t.Fatal(err)
		}
		if err := objstore.UploadDir(t.Context(), discardLog{}, files, filepath.Join(dir, id), id); err != nil {
			t.Fatal(err)
		}
		g := newSyncer(t, testOptions(t, files))
		if err := g.Sync(t.Context()); err != nil {
			t.Fatal(err)
		}
		if s := g.Skipped(); len(s) != 1 || s[0].Reason != SkipCorruptMeta {
			t.Errorf("%q: skipped %+v", path, s)
		}
	}
}
