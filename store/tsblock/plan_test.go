package tsblock

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
)

// TestPlanChunks runs the transcripts of testdata/plan.
func TestPlanChunks(t *testing.T) {
	datadriven.RunTest(t, "testdata/plan", func(t *testing.T, d *datadriven.TestData) string {
		var o PlanOptions
		for _, arg := range d.CmdArgs {
			for _, v := range arg.Vals {
				n, err := strconv.ParseInt(v, 10, 64)
				if err != nil {
					d.Fatalf(t, "%s: %v", arg.Key, err)
				}
				switch arg.Key {
				case "gap":
					o.Gap = n
				case "max-range":
					o.MaxRange = n
				case "estimate":
					o.Estimate = n
				case "sizes":
					o.SegmentSizes = append(o.SegmentSizes, n)
				default:
					d.Fatalf(t, "unknown option %s", arg.Key)
				}
			}
		}
		var refs []uint64
		for field := range strings.FieldsSeq(d.Input) {
			var segment, off uint64
			if _, err := fmt.Sscanf(field, "%d:%d", &segment, &off); err != nil {
				d.Fatalf(t, "%s: %v", field, err)
			}
			refs = append(refs, segment<<32|off)
		}
		p, err := PlanChunks(nil, refs, o)
		if err != nil {
			return "error: " + err.Error() + "\n"
		}
		var b strings.Builder
		for _, r := range p.Ranges {
			fmt.Fprintf(&b, "%s %d to %d, %d bytes: chunks %d to %d\n", SegmentFile(r.Segment), r.Off, r.Off+r.Len, r.Len, r.First, r.End-1)
		}
		fmt.Fprintf(&b, "%d bytes\n", p.Bytes)
		return b.String()
	})
}

// TestPlanProperties plans random references with random options: every chunk starts in its range and is in
// only one, ranges are sorted and do not overlap, and no range exceeds the bound, or a gap, without need.
func TestPlanProperties(t *testing.T) {
	random := rand.New(rand.NewPCG(8, 1))
	for range 3000 {
		o := PlanOptions{
			Gap: random.Int64N(5000) - 100, MaxRange: 1000 + random.Int64N(100_000), Estimate: 16 + random.Int64N(4000),
			SegmentSizes: []int64{0, 200_000},
		}
		var refs []uint64
		for range random.IntN(200) {
			refs = append(refs, random.Uint64N(3)<<32|(segmentHeaderSize+random.Uint64N(190_000)))
		}
		slices.Sort(refs)
		p, err := PlanChunks(make([]Range, 0, 4), refs, o)
		if err != nil {
			t.Fatal(err)
		}
		o.defaults()
		k, total := 0, int64(0)
		for i, r := range p.Ranges {
			if r.First != k || r.End <= k || r.Len <= 0 {
				t.Fatalf("range %d: %+v after chunk %d", i, r, k)
			}
			if i > 0 {
				before := p.Ranges[i-1]
				if before.Segment > r.Segment || before.Segment == r.Segment && before.Off+before.Len > r.Off {
					t.Fatalf("range %+v before %+v", before, r)
				}
			}
			if size := o.size(r.Segment); r.Off+r.Len > size {
				t.Fatalf("range %+v goes past the segment of %d bytes", r, size)
			}
			if r.Len > max(o.MaxRange, segmentHeaderSize+o.Estimate+o.Gap) {
				t.Fatalf("range %+v is longer than %d", r, o.MaxRange)
			}
			for last := int64(-1); k < r.End; k++ {
				segment, off := splitRef(refs[k])
				if segment != r.Segment || off < r.Off || off >= r.Off+r.Len {
					t.Fatalf("chunk %d at %d:%d is not in %+v", k, segment, off, r)
				}
				if last >= 0 && off-last > o.Estimate+o.Gap {
					t.Fatalf("chunks at %d and %d are read at once", last, off)
				}
				last = off
			}
			total += r.Len
		}
		if k != len(refs) || total != p.Bytes {
			t.Fatalf("%d of %d chunks, %d bytes of %d", k, len(refs), total, p.Bytes)
		}
	}
}

func TestPlanAppends(t *testing.T) {
	dst := []Range{{Len: 1}}
	p, err := PlanChunks(dst, []uint64{8, 100}, PlanOptions{})
	if err != nil || len(p.Ranges) != 2 || p.Ranges[0] != dst[0] || p.Bytes != 100+defaultEstimate {
		t.Errorf("%+v, %v", p, err)
	}
}

func ExamplePlanChunks() {
	refs := []uint64{8, 900, 1800, 5 << 20} // of the first segment
	p, err := PlanChunks(nil, refs, PlanOptions{Gap: 64 << 10})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, r := range p.Ranges {
		fmt.Println(SegmentFile(r.Segment), "from", r.Off, "on,", r.Len, "bytes")
	}
	fmt.Println(p.Bytes, "bytes before anything is read")
	// Output:
	// chunks/000001 from 0 on, 5896 bytes
	// chunks/000001 from 5242880 on, 4096 bytes
	// 9992 bytes before anything is read
}
