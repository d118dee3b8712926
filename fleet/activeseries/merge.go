package activeseries

import (
	"io"
	"sync"
)

// An Implementation is one of the two kinds of decoders, which accept the same bodies.
type Implementation uint8

const (
	// Strict is the decoder of this package, a Scanner.
	Strict Implementation = iota
	// Stdlib is the reference decoder on jsontext, a Plain.
	Stdlib
)

// String returns the name used in flags.
func (d Implementation) String() string {
	if d == Stdlib {
		return "stdlib"
	}
	return "strict"
}

// A Source is the response of one shard.
type Source struct {
	Shard string        // name in errors, such as "3_of_16"
	Body  io.ReadCloser // decompressed; the merge closes it in any case

	// Counts reports that the items are counts by the order's label, and each stands for the number of series
	// in its label CountLabel. Otherwise each item is one series, whatever its labels are.
	Counts bool

	// Reopen, if not nil, is called once to replace the body if it turns out to be invalid before its first
	// item was passed on. An error that it returns replaces why.
	Reopen func(why error) (io.ReadCloser, error)

	// Done, if not nil, is called when the source is not read any more, with its number of items and bytes
	// and the error that ended it, or nil. It may be called concurrently.
	Done func(items, bytes int64, err error)
}

// A Request specifies how sources are merged.
type Request struct {
	Decoder Implementation

	// Limit bounds the items: the first ones to arrive; of counts, the largest. 0 is no limit.
	Limit int

	// Unique reports that sources may have the same series, which are written once. It takes 11 to 22 bytes
	// per series. Beyond UniqueBytes the merge fails with a *BudgetError. Series are compared by a hash of 64
	// bits with a random seed per merge: among n series the probability of a collision is n²/2⁶⁵, which is 3
	// in 100,000,000 for a million.
	Unique      bool
	UniqueBytes int64

	// CountBy, if not empty, is a label: the response has an item for each of its values,
	//
	//	{"job":"prometheus","__count__":"10000"}
	//
	// with the number of series, in descending order. An item of a Source of counts counts as many series as
	// its label __count__ states, so counts can be merged again. If the values take more than CountBytes, the
	// merge fails with a *BudgetError.
	CountBy    string
	CountBytes int64

	// MaxBytes bounds the length of the response; beyond it the merge fails with a *BudgetError. 0 is no
	// limit.
	MaxBytes int64

	// Stop, if not nil, is called once when no more bytes are needed: after an error, and when Limit is
	// reached. It must unblock waiting reads, for example by cancelling their context.
	Stop func()

	// Failed, if not nil, is called once after an error, before the end of the response is written that
	// reports the error. If it returns true, the response is cut off there: the caller reports the error by
	// other means.
	Failed func(err error) bool

	// Compare, if not nil, makes the other decoder decode each body too, and is called for each body on which
	// the two disagree. It may be called concurrently.
	Compare func(Difference)
}

// MergerOptions configure a Merger.
type MergerOptions struct {
	// Workers is the number of goroutines that read bodies for one response, including the caller's: usually
	// the number of CPUs. At least 1.
	Workers int
}

// A Merger merges sources into one response, and reuses decoders. It is safe for concurrent use.
type Merger struct {
	workers int
	free    freeList
}

// NewMerger returns a Merger. Of each implementation it keeps up to 2 decoders per worker, of 64 KiB.
func NewMerger(o MergerOptions) *Merger {
	if o.Workers < 1 {
		panic("BUG: a merger without workers")
	}
	return &Merger{workers: o.Workers, free: freeList{most: 2 * o.Workers, decoders: map[Implementation][]Decoder{}}}
}

// freeList keeps decoders between bodies.
type freeList struct {
	most int // of each implementation

	mu       sync.Mutex
	decoders map[Implementation][]Decoder // guarded by mu
}

func (f *freeList) get(by Implementation) Decoder {
	f.mu.Lock()
	defer f.mu.Unlock()
	list := f.decoders[by]
	if len(list) == 0 {
		return NewDecoder(by)
	}
	d := list[len(list)-1]
	list[len(list)-1] = nil
	f.decoders[by] = list[:len(list)-1]
	return d
}

func (f *freeList) put(by Implementation, d Decoder) {
	d.Reset(noReader{}) // drops the references to the body and to a grown buffer
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.decoders[by]) < f.most {
		f.decoders[by] = append(f.decoders[by], d)
	}
}

// IdleBytes returns the memory of the buffers of idle decoders.
func (m *Merger) IdleBytes() (n int64) {
	m.free.mu.Lock()
	defer m.free.mu.Unlock()
	for _, list := range m.free.decoders {
		n += int64(len(list)) * bufferSize
	}
	return n
}

// NewDecoder returns a decoder of an implementation.
func NewDecoder(by Implementation) Decoder {
	if by == Stdlib {
		return new(plainScanner)
	}
	return new(Scanner)
}

// decoder returns a decoder for a source of an order.
func (m *Merger) decoder(o *Request, s *Source) Decoder {
	if o.Compare != nil {
		return newComparison(o, s)
	}
	return m.free.get(o.Decoder)
}

// release returns a decoder of an order to the free list.
func (m *Merger) release(o *Request, d Decoder) {
	if c, ok := d.(*comparison); ok {
		c.close()
		return
	}
	m.free.put(o.Decoder, d)
}

// noReader is the reader of idle decoders.
type noReader struct{}

func (noReader) Read([]byte) (int, error) { return 0, io.EOF }

// Merge returns the response that merges the sources:
//
//	{"data":[{…},{…}]}
//
// An error ends the list early, and the response reports it after the list:
//
//	{"data":[{…}],"status":"error","error":"shard 3_of_16 at byte 4711: …"}
//
// Warnings of sources are in "warnings" after the list: see Body.Warnings.
//
// The caller writes the Body by WriteTo or reads it by Read, and must close it. Merge itself reads nothing.
func (m *Merger) Merge(sources []Source, o Request) *Body {
	b := &Body{merger: m, order: o, sources: sources}
	b.out.init(&b.order)
	return b
}

func (s *Source) done(items, bytes int64, err error) {
	if s.Done != nil {
		s.Done(items, bytes, err)
	}
}
