package bucketurl

import (
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/thanos-io/objstore"
	"golang.org/x/sys/unix"
)

// TestPipes reads a pipe, a socket and a device in a directory, and links to them: each is an error, and none blocks.
func TestPipes(t *testing.T) {
	dir := t.TempDir()
	l, err := net.Listen("unix", filepath.Join(dir, "socket"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for name, err := range map[string]error{
		"pipe": unix.Mkfifo(filepath.Join(dir, "pipe"), 0o600), "link": os.Symlink("pipe", filepath.Join(dir, "link")),
		"zero": os.Symlink("/dev/zero", filepath.Join(dir, "zero")), "object": os.WriteFile(filepath.Join(dir, "object"), []byte("0123456789"), 0o600),
	} {
		if err != nil {
			t.Fatal(name, err)
		}
	}
	u, err := Parse("file://" + dir)
	if err != nil {
		t.Fatal(err)
	}
	b, err := u.Open()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"pipe", "link", "socket", "zero"} {
		if _, err := b.Get(t.Context(), name); err == nil || !strings.Contains(err.Error(), name) || b.IsObjNotFoundErr(err) {
			t.Errorf("%s: %v, want an error that names it", name, err)
		}
	}
	if _, err := b.Get(t.Context(), "nothing"); !b.IsObjNotFoundErr(err) {
		t.Errorf("a missing object: %v", err)
	}
	for _, part := range []struct {
		off, length int64
		want        string
	}{{0, -1, "0123456789"}, {3, -1, "3456789"}, {3, 4, "3456"}, {8, 4, "89"}, {12, 4, ""}} {
		r, err := b.GetRange(t.Context(), "object", part.off, part.length)
		if err != nil {
			t.Fatal(err)
		}
		var got strings.Builder
		if _, err := io.Copy(&got, r); err != nil || got.String() != part.want {
			t.Errorf("from %d, %d bytes: %q, %v, want %q", part.off, part.length, got.String(), err, part.want)
		}
		if size, err := objstore.TryToGetSize(r); err != nil || size != int64(len(part.want)) {
			t.Errorf("from %d, %d bytes: size %d, %v", part.off, part.length, size, err)
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
}
