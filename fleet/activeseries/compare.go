package activeseries

import (
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"slices"

	"github.com/taredb/tare/internal/panics"
)

// A Difference is a body on which the two decoders disagree.
type Difference struct {
	Shard             string
	By                Implementation // the implementation whose items were returned
	Items, OtherItems int64
	Err, OtherErr     error // nil for a valid body
	SameBytes         bool  // the items are equal byte by byte
	SameWarnings      bool
}

// String describes the difference.
func (d Difference) String() string {
	return fmt.Sprintf("shard %s: %s has %d items and error %v, the other %d and %v; items are the same: %t, warnings: %t",
		d.Shard, d.By, d.Items, d.Err, d.OtherItems, d.OtherErr, d.SameBytes, d.SameWarnings)
}

// A comparison decodes a body with one implementation, and concurrently with the other, in a goroutine that
// receives each byte that the first has read.
type comparison struct {
	Decoder // its items are returned
	other   Decoder
	by      Implementation
	shard   string
	report  func(Difference)

	tee   io.Reader      // reads the body
	pipe  *io.PipeWriter // nil if the current body was compared, or if there is none
	mine  itemSum
	yours chan verdictOn
}

// verdictOn is the result of a decoder for a whole body.
type verdictOn struct {
	sum      itemSum
	warnings []string
	err      error
}

// itemSum counts and hashes items, without the bytes between them.
type itemSum struct {
	items int64
	hash  maphash.Hash
}

func (s *itemSum) add(list []byte, n int) {
	s.items += int64(n)
	for item := range Items(list) {
		_, _ = s.hash.Write(item) // never fails
		_ = s.hash.WriteByte(',')
	}
}

func newComparison(o *Request, s *Source) *comparison {
	return &comparison{
		Decoder: NewDecoder(o.Decoder),
		other:   NewDecoder(Stdlib - o.Decoder),
		by:      o.Decoder,
		shard:   s.Shard,
		report:  o.Compare,
	}
}

// Reset starts a body, and a goroutine that finishes with it.
func (c *comparison) Reset(r io.Reader) {
	c.close()
	pr, pw := io.Pipe()
	seed := maphash.MakeSeed()
	c.pipe, c.yours = pw, make(chan verdictOn, 1)
	c.mine = itemSum{}
	c.mine.hash.SetSeed(seed)
	go func() {
		var v verdictOn
		v.sum.hash.SetSeed(seed)
		v.err = panics.Guard(func() error {
			c.other.Reset(pr)
			for {
				list, n, err := c.other.Next()
				v.sum.add(list, n)
				if err != nil {
					v.warnings = c.other.Warnings()
					return err
				}
			}
		})
		_, _ = io.Copy(io.Discard, pr) // the unused rest, so that the first decoder does not block
		c.yours <- v
	}()
	c.tee = io.TeeReader(r, pw)
	c.Decoder.Reset(c.tee)
}

// Next returns the items of the first decoder. At the end of the body it compares the two decoders.
func (c *comparison) Next() ([]byte, int, error) {
	list, n, err := c.Decoder.Next()
	if c.pipe == nil {
		return list, n, err
	}
	c.mine.add(list, n)
	if err != nil {
		c.compare(err)
	}
	return list, n, err
}

// compare waits for the other decoder, which receives the whole body even if the first one found an error
// before its end.
func (c *comparison) compare(err error) {
	if e, ok := errors.AsType[*Error](err); ok && e.Err == nil {
		_, _ = io.Copy(io.Discard, c.tee) // a read error here ends the body for the other decoder
	}
	c.finishOther(err)
	v := <-c.yours
	d := Difference{Shard: c.shard, By: c.by, Items: c.mine.items, OtherItems: v.sum.items, Err: notEOF(err), OtherErr: notEOF(v.err)}
	d.SameBytes = c.mine.hash.Sum64() == v.sum.hash.Sum64()
	d.SameWarnings = notEOF(err) != nil || slices.Equal(c.Decoder.Warnings(), v.warnings)
	if !d.SameBytes || !d.SameWarnings || d.Items != d.OtherItems || !sameFailure(d.Err, d.OtherErr) {
		c.report(d)
	}
}

// finishOther lets the other decoder finish.
func (c *comparison) finishOther(err error) {
	if e, ok := errors.AsType[*Error](err); ok && e.Err != nil {
		c.pipe.CloseWithError(e.Err)
	} else {
		c.pipe.Close()
	}
	c.pipe = nil
}

// close ends a comparison whose body is not read to its end.
func (c *comparison) close() {
	if c.pipe != nil {
		c.finishOther(nil)
		<-c.yours
	}
}

func notEOF(err error) error {
	if err == io.EOF { //nolint:errorlint // wrapped, it is an error of reading and no end
		return nil
	}
	return err
}

// sameFailure reports whether two decoders agree: both accept, both reject, or both found the same reported
// error.
func sameFailure(a, b error) bool {
	ra, aReports := errors.AsType[*ReportedError](a)
	rb, bReports := errors.AsType[*ReportedError](b)
	if aReports || bReports {
		return aReports && bReports && ra.Type == rb.Type && ra.Text == rb.Text
	}
	return (a == nil) == (b == nil)
}
