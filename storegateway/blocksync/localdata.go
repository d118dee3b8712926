package blocksync

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

func isNotExist(err error) bool { return errors.Is(err, fs.ErrNotExist) }

// cleanLocal removes the local files of blocks that are not served: those of blocks that went
// while no gateway ran, and of blocks that are now another shard's. Only directories named by a
// ULID are removed, and those of tenants that are empty then.
func (s *Syncer) cleanLocal(set *blockSet) error {
	root := s.options.DataDir // with ULID/ and tenant/ULID/ in it
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
			_ = os.Remove(dir) // stays if somebody has put something there
		}
	}
	return nil
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
