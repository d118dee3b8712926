package config

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/taredb/tare/history"
	"github.com/taredb/tare/internal/history/stmtstats"
	"github.com/taredb/tare/internal/store/bucketurl"
)

// History are the options of a gateway's history.
type History struct {
	Bucket  bucketurl.URL          // zero: no history
	Archive history.ArchiveOptions `json:"-"` // those that are options as they are, Labels without an instance; the wiring sets the others
	Table   stmtstats.Options      `json:"-"` // the same; no MaxDigests: none are counted

	QueryBytes   Bytes
	ProcessBytes Bytes
	Calls        BucketCalls // for queries that read the bucket
	DiskCache    DiskCache   // of these queries
	Memcached    Memcached

	RemoteWrite RemoteWrite
}

// Enabled reports whether a history is kept in a bucket. Without one, digests are counted in memory.
func (c *History) Enabled() bool { return c.Bucket.String() != "" }

func (c *History) declare(s *Set) {
	s.in("History")
	declare(s, &c.Bucket, Option{
		Name: "bucket", Kind: "url",
		Help: "keep the history of every statement in this bucket: file:///path or s3://bucket/prefix?endpoint=host:port&region=…; without it counts are in memory",
	}, parseBucket, bucketurl.URL.String)
	s.Duration(&c.Archive.Interval, "history-interval", "15s", "time between two samples of a statement's series, from 1s to 1m")
	s.IntUpTo(&c.Table.MaxDigests, "history-max-digests", "20000", 0, stmtstats.MostDigests, "digests (by schema, user and backend) counted separately, the rest together; 0: none, and no pages of them")
	declareBytes(s, &c.Table.Bytes, "history-bytes", "64MiB", 1<<20, "memory of these counters; with --bucket the head takes another 6 KiB per digest")
	declareBytesUpTo(s, &c.Table.MaxText, "history-max-text", "16KiB", 1<<10, stmtstats.MostText, "length at which texts are cut, at most 32KiB; shorter if long ones use an eighth of --history-bytes")
	declare(s, &c.Archive.Labels, Option{
		Name: "history-labels", Kind: "name=value,…",
		Help: "labels of all series and external labels of the blocks; instance defaults to the host name and the port of --listen",
	}, parseLabels, formatLabels)
	s.Duration(&c.Archive.LocalAge, "history-local-age", "24h", "age up to which uploaded blocks stay in --data-dir")
	declareBytes(s, &c.Archive.LocalBytes, "history-local-bytes", "4GiB", 64<<20, "size of blocks in --data-dir; beyond it the oldest is deleted, even if not uploaded")
	s.Duration(&c.Archive.RollupAge, "history-rollup-age", "9600h", "how long daily rollups are kept in --data-dir (hourly ones: 8 days)")
	s.Duration(&c.Archive.MaxAhead, "history-max-ahead", "24h", "how far samples may be ahead of a clock that was set back before they get another instance label")
	s.Duration(&c.Archive.Retention.Age, "history-retention", "0", "delete this gateway's blocks and rollups from the bucket at this age (daily ones: --history-rollup-age); 0: never")
	declareBytes(s, &c.Archive.Retention.Bytes, "history-retention-bytes", "0", 0, "delete this gateway's oldest blocks and rollups from the bucket beyond this size, daily rollups last; 0: never")
	s.Duration(&c.Archive.Retention.Delay, "history-retention-delay", "48h", "time between the deletion mark of a block and its deletion")
	s.Bool(&c.Archive.Retention.DryRun, "history-retention-dry-run", "log what retention would delete, and change nothing")
	declareBytes(s, &c.QueryBytes, "history-query-bytes", "64MiB", 4<<20, "memory limit of one query over the history")
	declareBytes(s, &c.ProcessBytes, "history-process-bytes", "256MiB", 4<<20, "memory limit of all queries over the history, others queue; label and series requests have another 1/16")
	c.Calls.declare(s, "history-queue-timeout")
	c.DiskCache.declare(s, "history-")
	c.Memcached.declare(s, "history-")
	c.RemoteWrite.declare(s)
	s.need("without --bucket", c.Enabled,
		"history-interval", "history-labels", "history-local-age", "history-local-bytes", "history-rollup-age", "history-max-ahead",
		"history-retention", "history-retention-bytes", "history-retention-delay", "history-retention-dry-run", "history-query-bytes", "history-process-bytes",
		"history-queue-timeout", "bucket-timeout", "bucket-tries", "bucket-hedge", "history-cache-dir", "history-cache-size",
		"history-cache-memcached", "history-cache-memcached-timeout", "history-remote-write", "history-remote-write-version",
		"history-remote-write-token-file", "history-remote-write-tenant", "history-remote-write-ca")
	s.need("without --history-retention or --history-retention-bytes", func() bool { return c.Archive.Retention.Age != 0 || c.Archive.Retention.Bytes != 0 },
		"history-retention-delay", "history-retention-dry-run")
	s.need("with --history-max-digests 0", func() bool { return c.Table.MaxDigests > 0 }, "history-bytes", "history-max-text")
}

func (c *History) validate() (errs []error) {
	if !c.Enabled() {
		return nil
	}
	errs = c.RemoteWrite.validate()
	if c.Table.MaxDigests == 0 {
		errs = append(errs, errors.New("--history-max-digests 0 leaves --bucket nothing to keep"))
	}
	if c.Archive.Interval < time.Second || c.Archive.Interval > time.Minute {
		errs = append(errs, fmt.Errorf("--history-interval: want 1s to 1m, not %s", formatDuration(c.Archive.Interval)))
	}
	if c.Archive.LocalAge < history.BlockRange {
		errs = append(errs, fmt.Errorf("--history-local-age: want at least %s, the length of a block", formatDuration(history.BlockRange)))
	}
	if c.Archive.RollupAge < history.MinRollupAge {
		errs = append(errs, fmt.Errorf("--history-rollup-age: want at least %s, as long as hours are kept", formatDuration(history.MinRollupAge)))
	}
	if age := max(history.MinRollupAge, c.Archive.LocalAge); c.Archive.Retention.Age != 0 && c.Archive.Retention.Age < age {
		errs = append(errs, fmt.Errorf("--history-retention: want 0 or at least %s", formatDuration(age)))
	}
	if c.Archive.MaxAhead < history.MinMaxAhead {
		errs = append(errs, fmt.Errorf("--history-max-ahead: want at least %s", formatDuration(history.MinMaxAhead)))
	}
	if c.Archive.Retention.Delay < history.MinRetentionDelay {
		errs = append(errs, fmt.Errorf("--history-retention-delay: want at least %s, so that readers have forgotten a block before it is deleted", formatDuration(history.MinRetentionDelay)))
	}
	if err := c.Memcached.validate("history-"); err != nil {
		errs = append(errs, err)
	}
	if err := c.Calls.validate("history-queue-timeout"); err != nil {
		errs = append(errs, err)
	}
	if c.ProcessBytes < c.QueryBytes {
		errs = append(errs, fmt.Errorf("--history-process-bytes %v is less than --history-query-bytes %v: no query could run", c.ProcessBytes, c.QueryBytes))
	}
	if err := c.validateLabels(); err != nil {
		errs = append(errs, err)
	}
	return errs
}

// validateLabels checks the labels with the default one of the instance.
func (c *History) validateLabels() error {
	labels := maps.Clone(c.Archive.Labels)
	if labels == nil {
		labels = make(map[string]string)
	}
	if labels[history.InstanceLabel] == "" {
		labels[history.InstanceLabel] = "default"
	}
	if err := history.ValidateLabels(labels); err != nil {
		return fmt.Errorf("--history-labels: %w", err)
	}
	return nil
}

// parseLabels splits name=value,name=value.
func parseLabels(s string) (map[string]string, error) {
	if s == "" {
		return nil, nil
	}
	labels := make(map[string]string)
	for pair := range strings.SplitSeq(s, ",") {
		name, value, ok := strings.Cut(pair, "=")
		name, value = strings.TrimSpace(name), strings.TrimSpace(value)
		if !ok || name == "" || value == "" {
			return nil, fmt.Errorf("want labels as name=value,name=value, not %q", s)
		}
		if _, twice := labels[name]; twice {
			return nil, fmt.Errorf("duplicate label %s", name)
		}
		labels[name] = value
	}
	return labels, nil
}

func formatLabels(labels map[string]string) string {
	pairs := make([]string, 0, len(labels))
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		pairs = append(pairs, name+"="+labels[name])
	}
	return strings.Join(pairs, ",")
}
