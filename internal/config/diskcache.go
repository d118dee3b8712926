package config

import (
	"fmt"

	"github.com/taredb/tare/tsblock/diskcache"
)

// DiskCache are the options of a cache of a bucket's pages on local disk.
type DiskCache struct {
	Dir   string // "": none
	Bytes Bytes
}

const defaultDiskCacheBytes = "10GiB"

func (c *DiskCache) declare(s *Set, prefix string) {
	s.String(&c.Dir, prefix+"cache-dir", "dir", "", "directory for pages of indexes and chunk files read from the bucket, one for each process; none when empty")
	s.Bytes(&c.Bytes, prefix+"cache-size", defaultDiskCacheBytes, diskcache.MinBytes, "disk space of --"+prefix+"cache-dir; another size empties it at the start")
}

func (c *DiskCache) validate(prefix string) error {
	if c.Dir == "" && c.Bytes.String() != defaultDiskCacheBytes {
		return fmt.Errorf("--%scache-size has no effect without --%[1]scache-dir", prefix)
	}
	return nil
}
