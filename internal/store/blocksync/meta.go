package blocksync

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/oklog/ulid/v2"
	"github.com/prometheus/prometheus/model/labels"

	"github.com/taredb/tare/store/tsblock"
)

// maxMeta bounds a meta.json in bytes. The longest ones list the sources of blocks that were compacted many
// times.
const maxMeta = 16 << 20

// maxExternal bounds the bytes of a block's external labels, which each of its series has in responses.
const maxExternal = 64 << 10

// parseMeta parses the meta.json of a block. Its errors are verdicts on the block.
func parseMeta(text []byte, id ulid.ULID) (*tsblock.Meta, error) {
	m, err := tsblock.ParseMeta(text)
	switch {
	case err != nil:
		return nil, skip(SkipCorruptMeta, "%v", err)
	case m.ULID != id:
		return nil, skip(SkipCorruptMeta, "meta.json is of block %s", m.ULID)
	case m.MaxTime-m.MinTime < 0: // the difference overflows int64
		return nil, skip(SkipCorruptMeta, "meta.json says from %d to %d", m.MinTime, m.MaxTime)
	case m.Thanos.Version != 0 && m.Thanos.Version != 1: // old files have none, which means 1
		return nil, skip(SkipCorruptMeta, "the thanos section of meta.json has version %d, 1 is known", m.Thanos.Version)
	case Resolution(m.Thanos.Downsample.Resolution).level() < 0:
		return nil, skip(SkipDownsampled, "a resolution of %d ms is unknown, supported are 5m and 1h", m.Thanos.Downsample.Resolution)
	}
	size := 0
	for name, value := range m.Thanos.Labels {
		if name == "" {
			return nil, skip(SkipCorruptMeta, "an external label has no name")
		}
		size += len(name) + len(value)
	}
	if size > maxExternal {
		return nil, skip(SkipCorruptMeta, "the external labels have %d bytes, the limit is %d", size, maxExternal)
	}
	return m, nil
}

// hasThanos reports whether a meta.json has the section that Thanos adds.
func hasThanos(m *tsblock.Meta) bool { return m.Thanos.Version != 0 || m.Thanos.Labels != nil }

// checkFiles compares the files that meta.json lists with those in the bucket.
func checkFiles(m *tsblock.Meta, f *found) error {
	if f.saw&sawIndex == 0 {
		return skip(SkipIncomplete, "index is missing")
	}
	if f.segments != f.last {
		return skip(SkipIncomplete, "there are %d chunk files, and the last has the number %d", f.segments, f.last)
	}
	if f.segments == 0 && m.Stats.NumChunks > 0 {
		return skip(SkipIncomplete, "chunk files are missing")
	}
	for _, file := range m.Thanos.Files {
		name := slashed(file.Path)
		if !fs.ValidPath(name) { // could escape from the block, and from a file bucket
			return skip(SkipCorruptMeta, "meta.json names the file %.60q", file.Path)
		}
		if !strings.HasPrefix(name, chunksName+"/") {
			continue
		}
		n, ok := segmentNumber(name)
		if !ok {
			return skip(SkipCorruptMeta, "meta.json names the chunk file %.60q", file.Path)
		}
		if n > f.last {
			return skip(SkipIncomplete, "%s is missing", name)
		}
	}
	return nil
}

// slashed returns a path of meta.json with slashes: the file may have been written on Windows.
func slashed(path string) string { return strings.ReplaceAll(path, `\`, "/") }

// externalLabels returns the external labels of a Thanos block.
func externalLabels(m *tsblock.Meta) labels.Labels {
	if len(m.Thanos.Labels) == 0 {
		return labels.EmptyLabels()
	}
	b := labels.NewBuilder(labels.EmptyLabels())
	for name, value := range m.Thanos.Labels {
		b.Set(name, value) // an empty value is no label
	}
	return b.Labels()
}

// A SkipReason is the reason why a block is not served. It is the value of a metric's label.
type SkipReason string

// Reasons to skip a block.
const (
	SkipNoMeta       SkipReason = "no-meta"       // an upload or a deletion is in progress, or was interrupted
	SkipUploading    SkipReason = "uploading"     // an upload through Mimir's API is not complete
	SkipIncomplete   SkipReason = "incomplete"    // a file is missing, or its size differs from meta.json
	SkipCorruptMeta  SkipReason = "corrupt-meta"  // meta.json is unreadable or contradicts itself
	SkipDownsampled  SkipReason = "downsampled"   // a resolution that is unknown, or coarser than the request allows
	SkipNoThanos     SkipReason = "no-thanos"     // a block of a Thanos bucket without external labels
	SkipTombstones   SkipReason = "tombstones"    // its tombstones file is unreadable
	SkipMarked       SkipReason = "deletion-mark" // marked for deletion longer than the delay
	SkipAccessDenied SkipReason = "access-denied" // the bucket lists it but refuses to return it
	SkipMisnamed     SkipReason = "misnamed"      // it has a meta.json, and a name or place that no block has
	SkipNoDirectory  SkipReason = "no-directory"  // it has the name of a block, and is a broken link or a file
	SkipTemporary    SkipReason = "temporary"     // a directory in which Prometheus creates or deletes a block
	SkipDamaged      SkipReason = "damaged"       // a query found bytes that violate the format; read again after a while
	SkipUnreadable   SkipReason = "unreadable"    // the bucket failed; retried at the next sync
	SkipOtherShard   SkipReason = "other-shard"   // served by another process; counted, not listed
	SkipTimeRange    SkipReason = "time-range"    // all its samples are outside Options.Times
)

// skipReasons are all reasons, for the metric.
var skipReasons = [...]SkipReason{
	SkipNoMeta, SkipUploading, SkipIncomplete, SkipCorruptMeta, SkipDownsampled,
	SkipNoThanos, SkipTombstones, SkipMarked, SkipAccessDenied, SkipDamaged, SkipUnreadable, SkipMisnamed, SkipNoDirectory, SkipTemporary,
	SkipOtherShard, SkipTimeRange,
}

// A verdict is an error that keeps a block from being served and that an immediate retry would not change.
type verdict struct {
	reason SkipReason
	detail string
}

func (v *verdict) Error() string { return string(v.reason) + ": " + v.detail }

func skip(reason SkipReason, format string, args ...any) error {
	return &verdict{reason, fmt.Sprintf(format, args...)}
}

// verdictOf returns the verdict that err wraps, or nil.
func verdictOf(err error) *verdict {
	v, _ := errors.AsType[*verdict](err)
	return v
}

// A deletionMark is deletion-mark.json, version 1.
type deletionMark struct {
	ID           string `json:"id"`
	Version      int    `json:"version"`
	DeletionTime int64  `json:"deletion_time"` // seconds since 1970
}

// parseDeletionMark returns the time at which the block was marked, in seconds since 1970.
func parseDeletionMark(text []byte) (int64, error) {
	var mark deletionMark
	if err := json.Unmarshal(text, &mark); err != nil {
		return 0, fmt.Errorf("%s: %w", deletionMarkName, err)
	}
	if mark.Version != 1 {
		return 0, fmt.Errorf("%s: version %d is unknown", deletionMarkName, mark.Version)
	}
	if mark.DeletionTime <= 0 {
		return 0, fmt.Errorf("%s: the time %d is none", deletionMarkName, mark.DeletionTime)
	}
	return mark.DeletionTime, nil
}
