package tsblock

// Default bounds of a plan.
const (
	// defaultMaxRange is small enough to spread a large read over several calls, and large enough to be worth
	// a call.
	defaultMaxRange = 8 << 20

	// defaultEstimate is the number of bytes read for a chunk whose end is unknown: Prometheus ends chunks at
	// about one kilobyte.
	defaultEstimate = 4 << 10

	minEstimate = 16 // more than the parts of a chunk besides its data
)

// PlanOptions control how chunk references become ranges. The zero value selects the defaults.
type PlanOptions struct {
	// Gap is the maximum distance of chunks that are read together. Default: defaultGap; negative: chunks
	// must be adjacent.
	Gap int64

	// MaxRange is the maximum length of a range, unless one chunk is longer. Default: defaultMaxRange.
	MaxRange int64

	// Estimate is the assumed length of a chunk that no other chunk follows closely. Default:
	// defaultEstimate.
	Estimate int64

	// SegmentSizes are the lengths of the chunk files by segment number, as far as they are known; 0
	// otherwise.
	SegmentSizes []int64
}

func (o *PlanOptions) defaults() {
	if o.Gap == 0 {
		o.Gap = defaultGap
	}
	if o.MaxRange <= 0 {
		o.MaxRange = defaultMaxRange
	}
	if o.Estimate <= 0 {
		o.Estimate = defaultEstimate
	}
	o.Gap, o.Estimate = max(o.Gap, 0), max(o.Estimate, minEstimate)
}

// size returns the length of a segment, or a number greater than all offsets if it is unknown.
func (o *PlanOptions) size(segment uint32) int64 {
	if int64(segment) < int64(len(o.SegmentSizes)) && o.SegmentSizes[segment] > 0 {
		return o.SegmentSizes[segment]
	}
	return 1 << 62
}

// A Range is a part of a segment that is read with one call.
type Range struct {
	Off, Len   int64
	Segment    uint32
	First, End int // references of the chunks that start in the range
}

// A Plan is the list of ranges to read for some chunks.
type Plan struct {
	Ranges []Range // sorted by segment and offset; they do not overlap
	Bytes  int64   // sum of the ranges' lengths
}

// PlanChunks returns the ranges that contain the chunks of refs, which must be sorted. It reads nothing: it
// assumes that a chunk ends where the next of refs starts, where the segment ends, or after the estimate,
// whichever is first, so the last chunk of a range may turn out to be longer. A range that starts with the
// first chunk of a file includes the file's header. The ranges are appended to dst. References that no chunk
// file can have are a *CorruptError without a block. PlanChunks costs some nanoseconds per chunk, and
// allocates only if dst has no room.
func PlanChunks(dst []Range, refs []uint64, o PlanOptions) (Plan, error) {
	o.defaults()
	p := Plan{Ranges: dst}
	first := len(dst)
	for i := 0; i < len(refs); {
		segment, off := splitRef(refs[i])
		if i > 0 && refs[i-1] > refs[i] {
			panic("BUG: references of chunks are not sorted")
		}
		size := o.size(segment)
		if reason := badOffset(off, size); reason != "" {
			return Plan{}, &CorruptError{File: SegmentFile(segment), Offset: off, Reason: reason}
		}
		// The chunk's references: several if the index references it several times.
		next := i + 1
		for next < len(refs) && refs[next] == refs[i] {
			next++
		}
		end := min(off+o.Estimate, size)
		if next < len(refs) {
			if s, following := splitRef(refs[next]); s == segment && following <= off+o.Estimate+o.Gap {
				end = following
			}
		}
		last := len(p.Ranges) - 1
		if last >= first && p.Ranges[last].takes(segment, off, end, &o) {
			r := &p.Ranges[last]
			p.Bytes += end - (r.Off + r.Len)
			r.Len, r.End = end-r.Off, next
		} else {
			if off == segmentHeaderSize {
				off = 0
			}
			p.Ranges = append(p.Ranges, Range{Segment: segment, Off: off, Len: end - off, First: i, End: next})
			p.Bytes += end - off
		}
		i = next
	}
	return p, nil
}

// takes reports whether a chunk from off to end should be read together with r.
func (r *Range) takes(segment uint32, off, end int64, o *PlanOptions) bool {
	return r.Segment == segment && off-(r.Off+r.Len) <= o.Gap && end-r.Off <= o.MaxRange
}

func badOffset(off, size int64) string {
	switch {
	case off < segmentHeaderSize:
		return "a chunk in the file's header"
	case off >= size:
		return "a chunk past the file's end"
	}
	return ""
}
