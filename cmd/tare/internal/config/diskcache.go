package config

import (
	"fmt"
	"strings"
	"time"

	"github.com/taredb/tare/internal/store/diskcache"
	"github.com/taredb/tare/internal/store/sharedcache"
)

// DiskCache are the options of a cache of a bucket's pages on local disk.
type DiskCache struct {
	Dir   string // "": none
	Bytes Bytes
}

// Memcached are the options of a cache of a bucket's pages in memcached servers.
type Memcached struct {
	Servers []string // none: off
	Timeout time.Duration
}

func (c *Memcached) declare(s *Set, prefix string) {
	declare(s, &c.Servers, Option{
		Name: prefix + "cache-memcached", Kind: "host:port,…",
		Help: "memcached servers for these pages, the same for all processes",
	}, parseNames, func(names []string) string { return strings.Join(names, ",") })
	s.Duration(&c.Timeout, prefix+"cache-memcached-timeout", sharedcache.DefaultTimeout.String(), "time limit of one call of a server of --"+prefix+"cache-memcached")
	s.need("without --"+prefix+"cache-memcached", func() bool { return len(c.Servers) > 0 }, prefix+"cache-memcached-timeout")
}

func (c *Memcached) validate(prefix string) error {
	if c.Timeout <= 0 {
		return fmt.Errorf("--%scache-memcached-timeout: want more than 0", prefix)
	}
	if err := sharedcache.ValidateServers(c.Servers); err != nil {
		return fmt.Errorf("--%scache-memcached: %w", prefix, err)
	}
	return nil
}

func (c *DiskCache) declare(s *Set, prefix string) {
	s.String(&c.Dir, prefix+"cache-dir", "dir", "", "directory for a cache of pages read from the bucket, one per process")
	declareBytes(s, &c.Bytes, prefix+"cache-size", "10GiB", diskcache.MinBytes, "disk space of --"+prefix+"cache-dir; another size empties it at the start")
	s.need("without --"+prefix+"cache-dir", func() bool { return c.Dir != "" }, prefix+"cache-size")
}
