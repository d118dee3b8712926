package blocksync

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/oklog/ulid/v2"
	"github.com/prometheus/prometheus/model/labels"

	"github.com/taredb/tare/tsblock"
)

// maxMeta is how long a meta.json may be, in bytes; the longest ones name the sources of blocks
// that were compacted many times.
const maxMeta = 16 << 20

// parseMeta reads the meta.json of a block. Its errors are verdicts on the block.
func parseMeta(text []byte, id ulid.ULID) (*tsblock.Meta, error) {
	m, err := tsblock.ParseMeta(text)
	switch {
	case err != nil:
		return nil, skip(SkipCorruptMeta, "%v", err)
	case m.ULID != id:
		return nil, skip(SkipCorruptMeta, "meta.json is of block %s", m.ULID)
	case m.MaxTime-m.MinTime < 0: // past what an int64 holds
		return nil, skip(SkipCorruptMeta, "meta.json says from %d to %d", m.MinTime, m.MaxTime)
	case m.Thanos.Version != 0 && m.Thanos.Version != 1: // old ones have none, which means 1
		return nil, skip(SkipCorruptMeta, "the thanos section of meta.json has version %d, 1 is known", m.Thanos.Version)
	case m.Thanos.Downsample.Resolution != 0:
		return nil, skip(SkipDownsampled, "each sample stands for %d ms, by several aggregates", m.Thanos.Downsample.Resolution)
	}
	return m, nil
}

// hasThanos says whether a meta.json has the section that Thanos adds.
func hasThanos(m *tsblock.Meta) bool { return m.Thanos.Version != 0 || m.Thanos.Labels != nil }

// checkFiles compares what meta.json says with what is in the bucket.
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
		if !fs.ValidPath(name) { // it could lead out of the block, and out of a directory's bucket
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

// slashed returns a path of meta.json, which may have been written on Windows.
func slashed(path string) string { return strings.ReplaceAll(path, `\`, "/") }

// externalLabels returns the labels that every series of a Thanos block has besides its own.
func externalLabels(m *tsblock.Meta) labels.Labels {
	if len(m.Thanos.Labels) == 0 {
		return labels.EmptyLabels()
	}
	return labels.FromMap(m.Thanos.Labels)
}

// A SkipReason says why a block is not served; it is a label of a metric.
type SkipReason string

// The reasons.
const (
	SkipNoMeta       SkipReason = "no-meta"       // an upload or a deletion is under way, or broke off
	SkipUploading    SkipReason = "uploading"     // Mimir's API has not taken it whole
	SkipIncomplete   SkipReason = "incomplete"    // a file is missing or has not the size of meta.json
	SkipCorruptMeta  SkipReason = "corrupt-meta"  // meta.json cannot be read or contradicts itself
	SkipDownsampled  SkipReason = "downsampled"   // Thanos' aggregates, which are no samples
	SkipNoThanos     SkipReason = "no-thanos"     // a Thanos bucket's block without external labels
	SkipTombstones   SkipReason = "tombstones"    // its file of tombstones cannot be read
	SkipMarked       SkipReason = "deletion-mark" // marked for deletion longer than the delay
	SkipAccessDenied SkipReason = "access-denied" // the bucket lets us see but not read it
	SkipUnreadable   SkipReason = "unreadable"    // the bucket failed; tried again at the next sync
	SkipOtherShard   SkipReason = "other-shard"   // another process serves it; counted, not listed
)

// skipReasons are all of them, for the metric.
var skipReasons = [...]SkipReason{
	SkipNoMeta, SkipUploading, SkipIncomplete, SkipCorruptMeta, SkipDownsampled,
	SkipNoThanos, SkipTombstones, SkipMarked, SkipAccessDenied, SkipUnreadable, SkipOtherShard,
}

// A verdict is the error that a block is not to be served, and that trying again at once would
// not change it.
type verdict struct {
	reason SkipReason
	detail string
}

func (v *verdict) Error() string { return string(v.reason) + ": " + v.detail }

func skip(reason SkipReason, format string, args ...any) error {
	return &verdict{reason, fmt.Sprintf(format, args...)}
}

// verdictOf returns the verdict that err is, nil when it is none.
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

// parseDeletionMark returns when the block was marked, in seconds since 1970.
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
