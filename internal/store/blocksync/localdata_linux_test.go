package blocksync

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/oklog/ulid/v2"
	"github.com/thanos-io/objstore"
	"golang.org/x/sys/unix"
)

// TestCleanLocalFails reports a directory of a block that cannot be removed, of no tenant and of one.
func TestCleanLocalFails(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("mounting requires root")
	}
	for _, tenant := range []string{"", "acme"} {
		t.Run("tenant="+tenant, func(t *testing.T) {
			o := testOptions(t, objstore.NewInMemBucket())
			s := newSyncer(t, o)
			var id ulid.ULID
			dir := filepath.Join(o.DataDir, tenant, id.String())
			if err := os.MkdirAll(dir, 0o700); err != nil {
				t.Fatal(err)
			}
			if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=4096"); err != nil { // a busy directory
				t.Skipf("mount %s: %v", dir, err)
			}
			unmount := func() {
				if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOENT) {
					t.Error(err)
				}
			}
			t.Cleanup(unmount)
			if err := s.cleanLocal(newBlockSet()); !errors.Is(err, unix.EBUSY) || !strings.Contains(err.Error(), "clean data directory") {
				t.Errorf("cleaning: %v, want %v", err, unix.EBUSY)
			}
			unmount()
			if err := s.cleanLocal(newBlockSet()); err != nil {
				t.Error(err)
			}
			if left, err := os.ReadDir(o.DataDir); err != nil || len(left) > 0 {
				t.Errorf("%v is left (%v)", left, err)
			}
		})
	}
}

// TestNoDataDirectory cleans nothing where there is no directory, and reports one that is a file.
func TestNoDataDirectory(t *testing.T) {
	o := testOptions(t, objstore.NewInMemBucket())
	s := newSyncer(t, o)
	s.options.DataDir = filepath.Join(o.DataDir, "none")
	if err := s.cleanLocal(newBlockSet()); err != nil {
		t.Error(err)
	}
	if err := os.WriteFile(s.options.DataDir, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := s.cleanLocal(newBlockSet()); !errors.Is(err, unix.ENOTDIR) {
		t.Errorf("cleaning a file: %v, want %v", err, unix.ENOTDIR)
	}
}

// TestChosenTenantAbsent logs each chosen tenant of which the bucket has nothing, once.
func TestChosenTenantAbsent(t *testing.T) {
	var logged strings.Builder
	o := testOptions(t, objstore.NewInMemBucket())
	o.Layout, o.Tenants, o.Log = LayoutMimir, []string{"acme"}, slog.New(slog.NewTextHandler(&logged, nil))
	s := newSyncer(t, o)
	for range 2 {
		if err := s.Sync(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if got := logged.String(); strings.Count(got, "nothing of a chosen tenant") != 1 || !strings.Contains(got, "tenant=acme") {
		t.Errorf("logged:\n%s", got)
	}
}

// TestSmallLoads lets a select open more small blocks of a remote bucket at once than large ones, and as many of a directory.
func TestSmallLoads(t *testing.T) {
	for _, dir := range []string{"", t.TempDir()} {
		o := testOptions(t, objstore.NewInMemBucket())
		o.HeaderLoads, o.LocalBucket = 3, dir
		s := newSyncer(t, o)
		want := smallLoads * o.HeaderLoads
		if dir != "" {
			want = o.HeaderLoads
		}
		if cap(s.headerLoads) != o.HeaderLoads || cap(s.smallLoads) != want || (dir != "") != (s.smallLoads == s.headerLoads) {
			t.Errorf("directory %q: %d loads, %d of small blocks, want %d", dir, cap(s.headerLoads), cap(s.smallLoads), want)
		}
	}
}
