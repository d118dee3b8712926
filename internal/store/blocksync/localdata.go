package blocksync

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/taredb/tare/internal/store/diskcache"
)

func isNotExist(err error) bool { return errors.Is(err, fs.ErrNotExist) }

// cleanLocal removes the local files of blocks that are not served: blocks that left the bucket while no
// gateway ran, and blocks that now belong to another shard. It removes only directories named by a ULID, and
// directories of tenants that become empty.
func (s *Syncer) cleanLocal(set *blockSet) error {
	root := s.options.DataDir // contains ULID/ and tenant/ULID/
	dirs, err := os.ReadDir(root)
	if isNotExist(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("clean data directory: %w", err)
	}
	if err := cleanTenant(root, dirs, set.tenants[""]); err != nil {
		return err
	}
	for _, d := range dirs {
		if _, ok := parseBlockID(d.Name()); ok || !d.IsDir() {
			continue
		}
		dir := filepath.Join(root, d.Name())
		blocks, err := os.ReadDir(dir)
		if err != nil {
			return fmt.Errorf("clean data directory: %w", err)
		}
		t := set.tenants[d.Name()]
		if err := cleanTenant(dir, blocks, t); err != nil {
			return err
		}
		if t == nil {
			_ = os.Remove(dir) // fails if the directory has other files
		}
	}
	return nil
}

// cleanDisk removes the pages of blocks that are not served from the disk cache. Those of blocks that leave the
// set later are removed with their local files.
func (s *Syncer) cleanDisk(set *blockSet) {
	if s.options.Disk == nil {
		return
	}
	var kept []diskcache.Block
	for b := range set.all() {
		kept = append(kept, diskcache.BlockOf(b.data.Prefix()))
	}
	s.options.Disk.Retain(kept)
}

func cleanTenant(dir string, entries []fs.DirEntry, t *Tenant) error {
	for _, e := range entries {
		id, ok := parseBlockID(e.Name())
		if !ok || !e.IsDir() || t != nil && t.byID[id] != nil {
			continue
		}
		if err := os.RemoveAll(filepath.Join(dir, e.Name())); err != nil {
			return fmt.Errorf("clean data directory: %w", err)
		}
	}
	return nil
}
