package tsblock

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/taredb/tare/internal/slab"
)

// readings are costs with which the results must be equal.
var readings = map[string]Costs{
	"in turn, no gap":  {Gap: 0, Calls: 1},
	"in turn":          {Gap: 4 << 10, Calls: 1},
	"in turn, one gap": {Gap: 1 << 20, Calls: 1},
	"at once, no gap":  {Gap: 0, Calls: 8},
	"at once":          {Gap: 20 << 10, Calls: 3},
}

// TestReadChunks reads random selections of random chunks in random order, some of them twice.
func TestReadChunks(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	made := randomChunks(random, 900)
	for name, costs := range readings {
		t.Run(name, func(t *testing.T) {
			random := rand.New(rand.NewPCG(1, 2))
			e := newChunkEnv(t, made, costs)
			for round := range 30 {
				var wanted []madeChunk
				share := []float32{1, 0.5, 0.05, 0.01}[round%4]
				for _, c := range made.chunks {
					if random.Float32() < share {
						wanted = append(wanted, c)
					}
				}
				if round%3 == 0 {
					random.Shuffle(len(wanted), func(i, j int) { wanted[i], wanted[j] = wanted[j], wanted[i] })
					wanted = append(wanted, wanted[:len(wanted)/10]...)
				}
				var refs []uint64
				var bytesWanted int64
				for i, c := range wanted {
					refs = append(refs, c.ref)
					if !slices.Contains(refs[:i], c.ref) {
						bytesWanted += int64(len(c.data))
					}
				}
				usage, err := e.read(t.Context(), t, refs, func(d *chunkData) {
					if d.Len() != len(wanted) {
						t.Fatalf("%d chunks, want %d", d.Len(), len(wanted))
					}
					for i, want := range wanted {
						encoding, data := d.At(i)
						if encoding != want.encoding || !bytes.Equal(data, want.data) || cap(data) != len(data) {
							t.Fatalf("chunk %d: encoding %d, %d bytes (cap %d); want %d, %d bytes", i, encoding, len(data), cap(data), want.encoding, len(want.data))
						}
					}
				})
				if err != nil {
					t.Fatal(err)
				}
				if usage.Items != int64(len(wanted)) || usage.Touched < bytesWanted || usage.Fetched != usage.Touched+usage.Wasted || usage.Wasted < 0 {
					t.Errorf("usage of %d chunks of %d bytes: %+v", len(wanted), bytesWanted, usage)
				}
			}
		})
	}
}

// TestReadLongChunk reads chunks that are longer than planned: each takes one more call and a separate slab,
// charged to the quota.
func TestReadLongChunk(t *testing.T) {
	s := new(segmentBuilder)
	s.segment()
	long := bytes.Repeat([]byte("long"), 500_000)
	s.add(1, []byte("short"))
	s.add(2, long)
	s.add(3, bytes.Repeat([]byte("x"), 100_000))
	e := newChunkEnv(t, s, Costs{Gap: 0, Calls: 1})
	usage, err := e.read(t.Context(), t, s.refs()[:2], func(d *chunkData) {
		if encoding, data := d.At(1); encoding != 2 || !bytes.Equal(data, long) {
			t.Errorf("encoding %d, %d bytes", encoding, len(data))
		}
		if encoding, data := d.At(0); encoding != 1 || string(data) != "short" {
			t.Errorf("encoding %d, %q", encoding, data)
		}
	})
	if err != nil || usage.Reads != 2 || usage.Wasted != segmentHeaderSize {
		t.Errorf("%+v, %v: want 2 reads, and nothing but the header wasted", usage, err)
	}

	// The quota has room for the plan, but not for the rest. The new block has no learned lengths.
	e = newChunkEnv(t, s, Costs{Gap: 0, Calls: 1})
	gate := slab.NewGate(slab.GateOptions{Bytes: 100_000, PerQuery: 100_000})
	q, err := gate.Admit(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var d chunkData
	_, err = e.block.readChunks(t.Context(), q, s.refs(), &d)
	var limit *slab.LimitError
	if !errors.As(err, &limit) || limit.Purpose != slab.Chunks || limit.Requested < int64(len(long)) {
		t.Errorf("got %v, want the limit", err)
	}
	if q.Used() != 0 || e.pool.Stats().OutBytes != 0 {
		t.Errorf("%d bytes reserved, %d out", q.Used(), e.pool.Stats().OutBytes)
	}
	q.Close()
}

// TestReadChunksOverQuota reads more than the quota allows: nothing is fetched.
func TestReadChunksOverQuota(t *testing.T) {
	made := randomChunks(rand.New(rand.NewPCG(2, 1)), 500)
	e := newChunkEnv(t, made, Costs{Gap: 1 << 20, Calls: 4})
	for _, room := range []int64{1, 10_000, 20_000, 30_000, 100_000} {
		gate := slab.NewGate(slab.GateOptions{Bytes: room, PerQuery: room})
		q, err := gate.Admit(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var d chunkData
		_, err = e.block.readChunks(t.Context(), q, made.refs(), &d)
		if !errors.Is(err, slab.ErrOverQuota) {
			t.Errorf("room for %d bytes: %v", room, err)
		}
		if e.source.calls != 0 || q.Used() != 0 || e.pool.Stats().OutBytes != 0 {
			t.Errorf("room for %d bytes: %d calls, %d bytes reserved, %d out", room, e.source.calls, q.Used(), e.pool.Stats().OutBytes)
		}
		q.Close()
	}
}

// TestReadChunksFaults fails each call of a load in each way: the error names the block and the file, and all
// bytes are returned.
func TestReadChunksFaults(t *testing.T) {
	made := randomChunks(rand.New(rand.NewPCG(3, 1)), 300)
	refs := made.refs()
	for name, costs := range readings {
		t.Run(name, func(t *testing.T) {
			e := newChunkEnv(t, made, costs)
			if _, err := e.read(t.Context(), t, refs, func(*chunkData) {}); err != nil {
				t.Fatal(err)
			}
			calls := e.source.calls
			// Reset the learned lengths, so that each load plans like the first one.
			forget := func() {
				e.block.lengths.average.Store(0)
				e.block.lengths.longest.Store(0)
			}
			ways := map[string]func(ctx context.Context, n int) (int, error){
				"an error":                   func(context.Context, int) (int, error) { return 0, errInjected },
				"half and an error":          func(_ context.Context, n int) (int, error) { return n / 2, errInjected },
				"all and an error":           func(_ context.Context, n int) (int, error) { return n, errInjected },
				"a reader's end":             func(context.Context, int) (int, error) { return 0, io.EOF },
				"a reader's end, wrapped":    func(_ context.Context, n int) (int, error) { return n / 2, fmt.Errorf("read: %w", io.EOF) },
				"cut off":                    func(_ context.Context, n int) (int, error) { return n / 2, io.ErrUnexpectedEOF },
				"nothing, and no error":      func(context.Context, int) (int, error) { return 0, nil },
				"a timeout":                  func(context.Context, int) (int, error) { return 0, context.DeadlineExceeded },
				"it waits for the context":   nil,
				"the context ends before it": nil,
			}
			for way, fail := range ways {
				for at := 1; at <= calls; at += 1 + calls/7 {
					ctx, cancel := context.WithCancelCause(t.Context())
					e.source.calls, e.source.failAt, e.source.fail = 0, at, fail
					forget()
					switch way {
					case "it waits for the context":
						e.source.fail = func(ctx context.Context, _ int) (int, error) {
							cancel(errInjected)
							<-ctx.Done()
							return 0, context.Cause(ctx)
						}
					case "the context ends before it":
						e.source.failAt = 0
						cancel(errInjected)
					}
					_, err := e.read(ctx, t, refs, func(d *chunkData) {
						if way != "all and an error" {
							t.Errorf("%s at call %d: no error", way, at)
						}
					})
					cancel(nil)
					if way == "all and an error" {
						continue // the requested bytes are complete, and their CRCs decide
					}
					if err == nil || !strings.Contains(err.Error(), testPrefix) {
						t.Errorf("%s at call %d: %v, want an error that names the block", way, at, err)
					} else if !strings.Contains(err.Error(), "chunks/0000") && !errors.Is(err, errInjected) {
						t.Errorf("%s at call %d: %v, want an error that names the file", way, at, err)
					}
				}
			}
		})
	}
}

// TestReadDamaged truncates files and flips bits at random offsets: the chunks equal those that were written,
// or the error names the file and an offset.
func TestReadDamaged(t *testing.T) {
	random := rand.New(rand.NewPCG(4, 1))
	made := randomChunks(random, 120)
	for round := range 600 {
		copied := &segmentBuilder{chunks: made.chunks}
		for _, s := range made.segments {
			copied.segments = append(copied.segments, bytes.Clone(s))
		}
		which := random.IntN(len(copied.segments))
		s := copied.segments[which]
		at := random.IntN(len(s))
		if round%2 == 0 {
			s[at] ^= 1 << random.IntN(8)
		} else {
			copied.segments[which] = s[:at]
		}
		costs := Costs{Gap: int64(random.IntN(1 << 20)), Calls: 1 + round%3}
		e := newChunkEnv(t, copied, costs)
		_, err := e.read(t.Context(), t, made.refs(), func(d *chunkData) {
			for i, want := range made.chunks {
				if encoding, data := d.At(i); encoding != want.encoding || !bytes.Equal(data, want.data) {
					t.Fatalf("round %d: chunk %d has other bytes", round, i)
				}
			}
		})
		if err == nil {
			if at < segmentHeaderSize && at > 4 && round%2 == 0 {
				continue // padding
			}
			t.Fatalf("round %d: damage at %d of %d bytes of segment %d goes unseen", round, at, len(s), which)
		}
		var corrupt *CorruptError
		if !errors.As(err, &corrupt) || corrupt.Block != testPrefix || corrupt.File != SegmentFile(uint32(which)) ||
			corrupt.Offset < 0 || corrupt.Offset > int64(at) && corrupt.Reason != endsEarly {
			t.Fatalf("round %d: damage at %d of segment %d: %v", round, at, which, err)
		}
	}
}

// TestReadWrongRefs reads references of chunks that do not exist.
func TestReadWrongRefs(t *testing.T) {
	made := randomChunks(rand.New(rand.NewPCG(5, 1)), 30)
	e := newChunkEnv(t, made, Costs{Gap: 1 << 20, Calls: 1})
	end := uint64(len(made.segments[0]))
	for _, c := range []struct {
		refs []uint64
		want string
	}{
		{[]uint64{0}, "block " + testPrefix + ": chunks/000001 at 0: a chunk in the file's header"},
		{[]uint64{7}, "block " + testPrefix + ": chunks/000001 at 7: a chunk in the file's header"},
		{[]uint64{end}, fmt.Sprintf("block %s: chunks/000001 at %d: the file ends early", testPrefix, end)},
		{[]uint64{end + 1<<30}, fmt.Sprintf("block %s: chunks/000001 at %d: the file ends early", testPrefix, end+1<<30)},
		{[]uint64{9 << 32}, "block " + testPrefix + ": chunks/000010 at 0: a chunk in the file's header"},
		{[]uint64{9<<32 | 8}, "block " + testPrefix + ": read chunks/000010 at 0: read " + testPrefix + "/chunks/000010: file does not exist"},
		{[]uint64{made.chunks[1].ref, made.chunks[1].ref + 1}, fmt.Sprintf("block %s: chunks/000001 at %d: a chunk goes on in the next", testPrefix, made.chunks[1].ref)},
	} {
		_, err := e.read(t.Context(), t, c.refs, func(*chunkData) {})
		if err == nil || err.Error() != c.want {
			t.Errorf("%x:\n got %v\nwant %s", c.refs, err, c.want)
		}
	}
}

// TestReadOtherFile reads files of another kind and version.
func TestReadOtherFile(t *testing.T) {
	for change, want := range map[[2]int]string{
		{0, 0x86}: "magic number 0x86bd40dd is not that of a chunk file",
		{4, 2}:    "version 2 of the chunk file format is not known",
	} {
		s := new(segmentBuilder)
		s.segment()
		s.add(1, []byte("data"))
		s.segments[0][change[0]] = byte(change[1])
		e := newChunkEnv(t, s, Costs{Calls: 1})
		_, err := e.read(t.Context(), t, s.refs(), func(*chunkData) {})
		if err == nil || err.Error() != "block "+testPrefix+": chunks/000001 at 0: "+want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

// TestReadClosedBlock checks that a closed block is only read by readers and batches that were open before.
func TestReadClosedBlock(t *testing.T) {
	made := randomChunks(rand.New(rand.NewPCG(6, 1)), 30)
	e := newChunkEnv(t, made, Costs{Calls: 1})
	e.block.Close()
	if _, err := e.read(t.Context(), t, made.refs(), func(*chunkData) {}); !errors.Is(err, errClosed) || !strings.Contains(err.Error(), testPrefix) {
		t.Errorf("got %v, want that the block is closed", err)
	}
}
