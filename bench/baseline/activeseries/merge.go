// Package activeseries is a straightforward merge of the responses of shards: a goroutine per response
// decodes it into sets of labels, one goroutine encodes them again, and a pipe connects it to the reader. It
// is the baseline of package frontend of the main module, which does the same work.
package activeseries

import (
	"context"
	"errors"
	"fmt"
	"io"

	jsoniter "github.com/json-iterator/go"
	"github.com/klauspost/compress/s2"
	"golang.org/x/sync/errgroup"
)

// A Label is a name and its value.
type Label struct{ Name, Value string }

// Labels are the labels of a series.
type Labels []Label

// Merge returns the merged response. The caller reads it to its end or closes it.
func Merge(ctx context.Context, bodies []io.ReadCloser, encoding string) io.ReadCloser {
	pr, pw := io.Pipe()
	series := make(chan Labels, len(bodies))
	decoders, ctx := errgroup.WithContext(ctx)
	for _, body := range bodies {
		decoders.Go(func() error {
			return errors.Join(decode(ctx, body, series), body.Close())
		})
	}
	go func() {
		err := write(pw, series, encoding, func() error {
			return decoders.Wait()
		})
		pw.CloseWithError(err)
	}()
	go func() {
		_ = decoders.Wait() // write returns the error
		close(series)
	}()
	return pr
}

// decode sends the series of a body.
func decode(ctx context.Context, body io.Reader, series chan<- Labels) error {
	it := jsoniter.Parse(jsoniter.ConfigFastest, body, 4096)
	size := 0
	for name := it.ReadObject(); name != ""; name = it.ReadObject() {
		if name != "data" {
			it.Skip()
			continue
		}
		for it.ReadArray() {
			labels := make(Labels, 0, size) // most series have as many labels as the previous one
			for label := it.ReadObject(); label != ""; label = it.ReadObject() {
				labels = append(labels, Label{label, it.ReadString()})
			}
			size = len(labels)
			select {
			case series <- labels:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}
	if it.Error != nil && !errors.Is(it.Error, io.EOF) {
		return fmt.Errorf("decode an answer: %w", it.Error)
	}
	return nil
}

// write writes the series until there are no more, and returns the error of wait.
func write(w io.Writer, series <-chan Labels, encoding string, wait func() error) error {
	end := func() error { return nil }
	if encoding == "x-snappy-framed" {
		c := s2.NewWriter(w, s2.WriterSnappyCompat())
		w, end = c, c.Close
	}
	out := jsoniter.ConfigFastest.BorrowStream(w)
	defer jsoniter.ConfigFastest.ReturnStream(out)
	out.WriteObjectStart()
	out.WriteObjectField("data")
	out.WriteArrayStart()
	first := true
	for labels := range series {
		if !first {
			out.WriteMore()
		}
		first = false
		out.WriteObjectStart()
		for i, l := range labels {
			if i > 0 {
				out.WriteMore()
			}
			out.WriteObjectField(l.Name)
			out.WriteString(l.Value)
		}
		out.WriteObjectEnd()
		if out.Buffered() > 64<<10 {
			if err := out.Flush(); err != nil {
				return err
			}
		}
	}
	out.WriteArrayEnd()
	if err := wait(); err != nil {
		out.WriteMore()
		out.WriteObjectField("status")
		out.WriteString("error")
		out.WriteMore()
		out.WriteObjectField("error")
		out.WriteString(err.Error())
	}
	out.WriteObjectEnd()
	return errors.Join(out.Flush(), end())
}
