package tsblock

// Bounds of a plan unless its options say otherwise.
const (
	// DefaultMaxRange is small enough that what is read at once can be spread over several
	// calls, and large enough that a call is worth it.
	DefaultMaxRange = 8 << 20

	// DefaultEstimate is what is read for a chunk whose end nothing tells: Prometheus ends
	// chunks at about one kilobyte.
	DefaultEstimate = 4 << 10

	minEstimate = 16 // more than the parts of a chunk that are not data
)

// PlanOptions say how chunk references become ranges. The zero value has the defaults.
type PlanOptions struct {
	// Gap is how far apart chunks may lie and still be read at once. Default: DefaultGap; less
	// than 0: they must touch.
	Gap int64

	// MaxRange is the most that is read at once, unless one chunk is longer. Default:
	// DefaultMaxRange.
	MaxRange int64

	// Estimate is how long a chunk is taken to be that no other chunk follows closely.
	// Default: DefaultEstimate.
	Estimate int64

	// SegmentSizes are the lengths of the chunk files by segment number, as far as they are
	// known; 0 where not.
	SegmentSizes []int64
}

func (o *PlanOptions) defaults() {
	if o.Gap == 0 {
		o.Gap = DefaultGap
	}
	if o.MaxRange <= 0 {
		o.MaxRange = DefaultMaxRange
	}
	if o.Estimate <= 0 {
		o.Estimate = DefaultEstimate
	}
	o.Gap, o.Estimate = max(o.Gap, 0), max(o.Estimate, minEstimate)
}

// size returns the length of a segment, or a number past all offsets.
func (o *PlanOptions) size(segment uint32) int64 {
	if int64(segment) < int64(len(o.SegmentSizes)) && o.SegmentSizes[segment] > 0 {
		return o.SegmentSizes[segment]
	}
	return 1 << 62
}

// A Range is a part of a segment that is read at once.
type Range struct {
	Off, Len   int64
	Segment    uint32
	First, End int // of the references: those of the chunks that begin in it
}

// A Plan is what has to be read for some chunks.
type Plan struct {
	Ranges []Range // by segment and offset; they do not overlap
	Bytes  int64   // sum of their lengths
}

// PlanChunks returns the ranges that have the chunks of refs, which are sorted, in them. It
// reads nothing: a chunk is taken to end where the next of refs begins, where the segment ends, or after the
// estimate, whichever is first, so the last chunk of a range can turn out to be
// longer than planned. A range that begins with the first chunk of a file includes the file's
// header. The ranges are appended to dst. References that no chunk file can have are a *CorruptError
// without a block. It costs some nanoseconds a chunk, and allocates when dst has no room.
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
		// The chunk's references: more than one if the index names it more than once.
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

// takes reports whether a chunk from off to end is to be read together with r.
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
