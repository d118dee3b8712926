package storegateway

import (
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
)

// shared are the blocks that several tests read: each directory is written by the first that
// needs it, and nobody changes it afterwards.
var shared struct {
	mu   sync.Mutex
	root string            // removed by TestMain
	dirs map[string]string // by what is in them
}

// sharedBlocks returns the directory of that name, which write writes if nobody has so far.
func sharedBlocks(tb testing.TB, name string, write func(dir string) error) string {
	tb.Helper()
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if shared.root == "" {
		root, err := os.MkdirTemp("", "storegateway-blocks-") //nolint:usetesting // it outlives the test that is first
		if err != nil {
			tb.Fatal(err)
		}
		shared.root, shared.dirs = root, make(map[string]string)
	}
	if dir := shared.dirs[name]; dir != "" {
		return dir
	}
	dir := filepath.Join(shared.root, strconv.Itoa(len(shared.dirs)))
	if err := os.Mkdir(dir, 0o700); err != nil {
		tb.Fatal(err)
	}
	if err := write(dir); err != nil {
		tb.Fatal(err)
	}
	shared.dirs[name] = dir
	return dir
}
