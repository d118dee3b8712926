package activeseries

import (
	"io"
	"sync"
)

// An Implementation names one of the two decoders, which accept the same bodies.
type Implementation uint8

const (
	// Strict is this package's own, a Scanner.
	Strict Implementation = iota
	// Stdlib is the plain one on encoding/json, a Plain.
	Stdlib
)

// String is the name as flags have it.
func (d Implementation) String() string {
	if d == Stdlib {
		return "stdlib"
	}
	return "strict"
}

// A Source is one shard's answer.
type Source struct {
	Shard string        // in errors, such as "3_of_16"
	Body  io.ReadCloser // decompressed; closed by the merge, whatever happens
	Form  Form          // of the body

	// Counts says that the items are counts by the order's label, each of as many series as its label
	// CountLabel has. Otherwise each item is one series, whatever labels it has.
	Counts bool

	// Reopen, if there is one, is asked once for another body when this one turns out wrong
	// before the first of its items was passed on. What it returns as an error takes the place
	// of why.
	Reopen func(why error) (io.ReadCloser, error)

	// Done, if there is one, is told when nothing more is read of the source: how many items
	// and bytes it had, and the error that it ended with, or nil. Calls come from several goroutines.
	Done func(items, bytes int64, err error)
}

// An Order is what is to be made of the sources.
type Order struct {
	Decoder Implementation
	Form    Form // of the answer; FormFramed has no place for an error, the caller tells of it otherwise

	// Limit is how many items go out, the first ones to come; of counts, the largest. 0 is all.
	Limit int

	// Unique says that sources may hold the same series, which goes out once. It takes 11 to 22
	// bytes a series, up to UniqueBytes, or a *BudgetError. Series are told apart by a hash
	// of 64 bits with a seed of its own for each merge: of n series one is taken for another with a
	// chance of n²/2⁶⁵, which is 3 in 100,000,000 for a million.
	Unique      bool
	UniqueBytes int64

	// CountBy, when not empty, is a label: the answer has an item for each of its values,
	//
	//	{"job":"prometheus","__count__":"10000"}
	//
	// with the number of series, the largest first. An item of a Source of
	// counts counts as much as its label __count__ has, so that counts can be counted again. The values take
	// up to CountBytes, or a *BudgetError.
	CountBy    string
	CountBytes int64

	// MaxBytes is how long the answer may be, or a *BudgetError; 0 is without limit.
	MaxBytes int64

	// Stop, if there is one, is called once as soon as nothing more needs to be read: after an error,
	// and when Limit is reached. It ends reads that wait, as by cancelling their context.
	Stop func()

	// Failed, if there is one, is asked once after an error, before the end of the answer is
	// written that tells of it. If it returns true the answer ends there, as the caller has
	// another way to tell.
	Failed func(err error) bool

	// Compare, if there is one, has each body decoded by the other decoder too, and is told
	// of each body that the two do not agree on. Calls come from several goroutines.
	Compare func(Difference)
}

// MergerOptions are options of a Merger.
type MergerOptions struct {
	// Workers is how many goroutines read bodies for one answer, the caller's own included: as
	// many as there are processors, usually. At least 1.
	Workers int
}

// A Merger merges sources into one answer, and keeps decoders for the next. It is safe for
// concurrent use.
type Merger struct {
	workers int
	free    freeList
}

// NewMerger makes a Merger. It keeps up to 2 decoders a worker, of 64 KiB each.
func NewMerger(o MergerOptions) *Merger {
	if o.Workers < 1 {
		panic("BUG: a merger without workers")
	}
	return &Merger{workers: o.Workers, free: freeList{most: 2 * o.Workers}}
}

// freeList keeps strict decoders between bodies, by form.
type freeList struct {
	most int // of each form

	mu       sync.Mutex
	decoders [formsEnd][]Decoder // under mu
}

func (f *freeList) take(form Form) Decoder {
	f.mu.Lock()
	defer f.mu.Unlock()
	list := f.decoders[form]
	if len(list) == 0 {
		return NewDecoder(Strict, form)
	}
	d := list[len(list)-1]
	list[len(list)-1] = nil
	f.decoders[form] = list[:len(list)-1]
	return d
}

func (f *freeList) give(form Form, d Decoder) {
	d.Reset(noReader{}) // lets go of the body, and of a buffer that grew
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.decoders[form]) < f.most {
		f.decoders[form] = append(f.decoders[form], d)
	}
}

// IdleBytes is what the decoders' buffers take that wait for the next answer.
func (m *Merger) IdleBytes() (n int64) {
	m.free.mu.Lock()
	defer m.free.mu.Unlock()
	for _, list := range m.free.decoders {
		n += int64(len(list)) * bufferSize
	}
	return n
}

// NewDecoder makes a decoder for bodies of form.
func NewDecoder(by Implementation, form Form) Decoder {
	switch {
	case form == FormJSON && by == Stdlib:
		return new(Plain)
	case form == FormJSON:
		return new(Scanner)
	case by == Stdlib:
		return NewPlainFrames(form)
	}
	return NewFrameScanner(form)
}

// decoder is one for a source of an order.
func (m *Merger) decoder(o *Order, s *Source) Decoder {
	if o.Compare != nil {
		return newComparison(o, s)
	}
	if o.Decoder == Strict {
		return m.free.take(s.Form)
	}
	return NewDecoder(o.Decoder, s.Form)
}

// release takes a decoder back.
func (m *Merger) release(form Form, d Decoder) {
	switch d := d.(type) {
	case *Scanner, *FrameScanner:
		m.free.give(form, d)
	case *comparison:
		d.close()
	}
}

// noReader is what a decoder reads that has nothing to read.
type noReader struct{}

func (noReader) Read([]byte) (int, error) { return 0, io.EOF }

// Merge makes one answer of the sources:
//
//	{"data":[{…},{…}]}
//
// An error ends the list early, and the answer tells of it after the list:
//
//	{"data":[{…}],"status":"error","error":"shard 3_of_16 at byte 4711: …"}
//
// The Body is the answer, to be written by WriteTo or read by Read, and must be closed. Merge
// itself reads nothing.
func (m *Merger) Merge(sources []Source, o Order) *Body {
	b := &Body{merger: m, order: o, sources: sources}
	b.out.begin(&b.order)
	return b
}

func (s *Source) done(items, bytes int64, err error) {
	if s.Done != nil {
		s.Done(items, bytes, err)
	}
}
