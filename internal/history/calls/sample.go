package calls

import (
	"encoding/binary"
	"fmt"
	"iter"
	"math"
	"math/rand/v2"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/taredb/tare/mysql/mysqlwire"
	"github.com/taredb/tare/querylog"
)

const (
	// interval is the time of one set of reservoirs.
	interval = 15 * time.Second

	numStrata = 32
	numSlots  = 8
	maxNames  = 184 // bytes of user, schema, backend and tags of a call
	maxUser   = 32
	maxName   = 64 // of schema and backend
)

// Options configures a Sample.
type Options struct {
	// Bytes bounds the memory, and so the time covered; MinBytes to MaxBytes.
	Bytes int64
}

// MinBytes and MaxBytes bound the memory of a Sample, DefaultBytes covers half an hour.
const (
	MinBytes     = 2 * int64(unsafe.Sizeof(span{}))
	MaxBytes     = int64(1) << 30
	DefaultBytes = 8 << 20
)

// A Sample keeps calls of the latest intervals. It is safe for concurrent use.
type Sample struct {
	spans []span
}

// A span is the sample of the calls that ended in one interval.
type span struct {
	number atomic.Int64 // intervals since 1970; 0: none yet
	turn   sync.Mutex   // locked while the span is reused
	strata [numStrata]stratum
}

// A stratum has a reservoir of the calls of some digests.
type stratum struct {
	seen  atomic.Uint64
	mu    sync.Mutex
	slots [numSlots]slot // guarded by mu
}

// A slot is one call.
type slot struct {
	end, nanos int64 // Unix nanoseconds; 0: empty
	rows       uint64
	digest     [16]byte
	addr       [16]byte
	errno      uint16
	isIP       bool
	user       uint8 // bytes in names, as the next two; tags are the rest
	schema     uint8
	backend    uint8
	used       uint8
	names      [maxNames]byte
}

// A Call is one call of the sample.
type Call struct {
	End     time.Time
	Took    time.Duration
	Weight  float64 // number of calls that it represents
	Rows    uint64  // returned or affected
	Error   uint16  // MySQL's number; 0: it succeeded
	User    string
	Schema  string
	Backend string
	Client  string // address without port; "" if unknown
	Tags    []Tag
}

// A Tag is a sqlcommenter key and value.
type Tag struct{ Key, Value string }

// New returns an empty Sample.
func New(o Options) (*Sample, error) {
	if o.Bytes < MinBytes || o.Bytes > MaxBytes {
		return nil, fmt.Errorf("a sample of calls of %d bytes: want %d to %d", o.Bytes, MinBytes, MaxBytes)
	}
	return &Sample{spans: make([]span, o.Bytes/int64(unsafe.Sizeof(span{})))}, nil
}

// HeapBytes returns the memory of the Sample.
func (s *Sample) HeapBytes() int64 { return int64(len(s.spans)) * int64(unsafe.Sizeof(span{})) }

// Covers returns the time from the oldest call kept to the newest one, in whole intervals; a full Sample drops the oldest.
func (s *Sample) Covers() time.Duration {
	oldest, newest := int64(math.MaxInt64), int64(0)
	for i := range s.spans {
		if n := s.spans[i].number.Load(); n > 0 {
			oldest, newest = min(oldest, n), max(newest, n)
		}
	}
	oldest = max(oldest, newest-int64(len(s.spans))+1) // older ones are not returned
	return time.Duration(max(newest-oldest, 0)) * interval
}

// Observe implements gateway.Observer. It does not allocate.
func (s *Sample) Observe(r *querylog.Record) {
	if r.Digest == ([16]byte{}) || r.Command == mysqlwire.ComStmtPrepare {
		return
	}
	end := r.Start.UnixNano() + int64(r.Total)
	number := end / int64(interval)
	m := &s.spans[int(uint64(number)%uint64(len(s.spans)))]
	if m.number.Load() != number && !m.become(number) {
		return
	}
	st := &m.strata[stratumOf(&r.Digest)]
	at := st.seen.Add(1) - 1
	if at >= numSlots {
		if at = rand.Uint64N(at + 1); at >= numSlots {
			return
		}
	}
	st.mu.Lock()
	st.slots[at].fill(r, end)
	st.mu.Unlock()
}

func stratumOf(digest *[16]byte) uint64 { return binary.LittleEndian.Uint64(digest[8:]) % numStrata }

// become empties the span for a later interval. It returns false if the span is already used for a later one:
// the call ended too long ago.
func (m *span) become(number int64) bool {
	m.turn.Lock()
	defer m.turn.Unlock()
	was := m.number.Load()
	if was >= number {
		return was == number
	}
	for i := range m.strata {
		st := &m.strata[i]
		st.mu.Lock()
		st.seen.Store(0)
		for k := range st.slots {
			st.slots[k].end = 0
		}
		st.mu.Unlock()
	}
	m.number.Store(number)
	return true
}

func (c *slot) fill(r *querylog.Record, end int64) {
	c.end, c.nanos, c.rows, c.digest, c.errno = end, int64(r.Total), r.RowsReturned+r.RowsAffected, r.Digest, r.ErrorNumber
	if c.isIP = r.Client.IsValid(); c.isIP {
		c.addr = r.Client.Addr().As16()
	}
	names := c.names[:0]
	names = append(names, r.User[:min(len(r.User), maxUser)]...)
	c.user = uint8(len(names))
	names = append(names, r.Schema[:min(len(r.Schema), maxName)]...)
	c.schema = uint8(len(names)) - c.user
	names = append(names, r.Backend[:min(len(r.Backend), maxName)]...)
	c.backend = uint8(len(names)) - c.user - c.schema
	for _, t := range r.Tags {
		if len(t.Key) == 0 || len(t.Key) > 255 || len(names)+2+len(t.Key) > maxNames {
			break
		}
		value := t.Value[:min(len(t.Value), 255, maxNames-len(names)-2-len(t.Key))]
		names = append(names, uint8(len(t.Key)))
		names = append(names, t.Key...)
		names = append(names, uint8(len(value)))
		names = append(names, value...)
	}
	c.used = uint8(len(names))
}

func (c *slot) call(weight float64) Call {
	user, schema, backend := int(c.user), int(c.user)+int(c.schema), int(c.user)+int(c.schema)+int(c.backend)
	out := Call{
		End: time.Unix(0, c.end).UTC(), Took: time.Duration(c.nanos), Weight: weight, Rows: c.rows, Error: c.errno,
		User: string(c.names[:user]), Schema: string(c.names[user:schema]), Backend: string(c.names[schema:backend]),
	}
	if c.isIP {
		out.Client = netip.AddrFrom16(c.addr).Unmap().String()
	}
	for rest := c.names[backend:c.used]; len(rest) > 0; {
		k := int(rest[0])
		key := string(rest[1 : 1+k])
		v := int(rest[1+k])
		out.Tags = append(out.Tags, Tag{key, string(rest[2+k : 2+k+v])})
		rest = rest[2+k+v:]
	}
	return out
}

// Of returns the calls of a statement that ended in [from, to), unordered within an interval.
func (s *Sample) Of(digest [16]byte, from, to time.Time) []Call {
	first, last := from.UnixNano(), to.UnixNano()
	at := stratumOf(&digest)
	var all []Call
	for number := max(first/int64(interval), (last-1)/int64(interval)-int64(len(s.spans))+1); number <= (last-1)/int64(interval); number++ {
		m := &s.spans[int(uint64(number)%uint64(len(s.spans)))]
		if m.number.Load() != number {
			continue
		}
		st := &m.strata[at]
		st.mu.Lock()
		seen := st.seen.Load()
		for i := range st.slots {
			if c := &st.slots[i]; c.digest == digest && c.end >= first && c.end < last && c.end != 0 {
				all = append(all, c.call(weightOf(seen)))
			}
		}
		st.mu.Unlock()
	}
	return all
}

// All returns the calls of all statements that ended in [from, to), with their digests, unordered within an interval.
func (s *Sample) All(from, to time.Time) iter.Seq2[[16]byte, Call] {
	first, last := from.UnixNano(), to.UnixNano()
	return func(yield func([16]byte, Call) bool) {
		var slots [numSlots]slot
		for number := max(first/int64(interval), (last-1)/int64(interval)-int64(len(s.spans))+1); number <= (last-1)/int64(interval); number++ {
			m := &s.spans[int(uint64(number)%uint64(len(s.spans)))]
			if m.number.Load() != number {
				continue
			}
			for i := range m.strata {
				st := &m.strata[i]
				st.mu.Lock()
				seen := st.seen.Load()
				slots = st.slots
				st.mu.Unlock()
				for k := range slots {
					c := &slots[k]
					if c.end < first || c.end >= last || c.end == 0 {
						continue
					}
					if !yield(c.digest, c.call(weightOf(seen))) {
						return
					}
				}
			}
		}
	}
}

// weightOf returns the number of calls that each slot of a stratum represents.
func weightOf(seen uint64) float64 {
	seen = max(seen, 1)
	return float64(seen) / float64(min(seen, numSlots))
}
