package control

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/taredb/tare/internal/move/tabledef"
	"github.com/taredb/tare/internal/move/telemetry"
)

// Dir returns the directory for the control sockets of this user's copies. It creates the directory,
// accessible to this user only, if it is missing.
func Dir() (string, error) {
	dir := filepath.Join(os.TempDir(), "tare-"+strconv.Itoa(os.Getuid()))
	runtime := os.Getenv("XDG_RUNTIME_DIR")
	if info, err := os.Stat(runtime); err == nil && info.IsDir() { // su and sudo set it to a directory that may not exist
		dir = filepath.Join(runtime, "tare")
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", fmt.Errorf("make the directory for control sockets: %w", err)
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return "", err
	}
	if owner, ok := info.Sys().(*syscall.Stat_t); !info.IsDir() || info.Mode().Perm()&0o077 != 0 || ok && int(owner.Uid) != os.Getuid() {
		return "", fmt.Errorf("%s must be a directory that only you can enter: others could control your copies, or pretend to be one; remove it, or name the socket with option control-socket", dir)
	}
	return dir, nil
}

// Name returns the name of the socket of a copy to these tables of the server at addr.
func Name(addr string, tables []tabledef.Spec) string {
	var targets []string
	for _, t := range tables {
		t.Defaults()
		targets = append(targets, t.Target())
	}
	slices.Sort(targets)
	sum := sha256.Sum256([]byte(addr + "\x00" + strings.Join(targets, "\x00")))
	const longest = 40
	name := strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r == '.' || r == '-' || r == '_' {
			return r
		}
		return '_'
	}, targets[0])
	return fmt.Sprintf("copy-%.*s-%x.sock", longest, name, sum[:4])
}

// Sockets returns the paths of the control sockets in a directory, sorted by name. Killed copies leave
// their sockets behind, to which connections are refused.
func Sockets(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("look for control sockets: %w", err)
	}
	var sockets []string
	for _, e := range entries {
		if e.Type()&fs.ModeSocket != 0 && strings.HasPrefix(e.Name(), "copy-") && strings.HasSuffix(e.Name(), ".sock") {
			sockets = append(sockets, filepath.Join(dir, e.Name()))
		}
	}
	return sockets, nil
}

// Running returns the status of each running copy with a socket in a directory, by path. Sockets that
// accept no connection are left out.
func Running(ctx context.Context, dir string) (map[string]*telemetry.Status, error) {
	sockets, err := Sockets(dir)
	if err != nil {
		return nil, err
	}
	running := make(map[string]*telemetry.Status)
	for _, path := range sockets {
		c := NewClient(path)
		if s, err := c.Status(ctx); err == nil {
			running[path] = s
		}
		c.Close()
	}
	return running, nil
}
