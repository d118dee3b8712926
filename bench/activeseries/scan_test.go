package activeseries

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"testing"

	"github.com/bytedance/sonic"
	jsoniter "github.com/json-iterator/go"
	"github.com/minio/simdjson-go"

	"github.com/taredb/tare/fleet/activeseries"
	"github.com/taredb/tare/internal/testactive"
)

const items = 10_000

// A subject scans a body.
type subject struct {
	name string
	scan func(body []byte) error
}

var errItems = errors.New("items are missing")

func subjects() []subject {
	var scanner activeseries.Scanner
	var reader bytes.Reader
	var parsed *simdjson.ParsedJson
	window := make([]byte, 64<<10)
	return []subject{
		{"tare", func(body []byte) error { // JSON, UTF-8, shape; reads through a window and returns items
			reader.Reset(body)
			scanner.Reset(&reader)
			for n := 0; ; {
				_, k, err := scanner.Next()
				if n += k; err == io.EOF && n == items {
					return nil
				}
				if err != nil {
					return err
				}
			}
		}},
		{"encoding_json.Valid", func(body []byte) error { // JSON
			if !json.Valid(body) {
				return errItems
			}
			return nil
		}},
		{"jsoniter.Skip", func(body []byte) error { // JSON, item by item
			it := jsoniter.ConfigCompatibleWithStandardLibrary.BorrowIterator(body)
			defer jsoniter.ConfigCompatibleWithStandardLibrary.ReturnIterator(it)
			n := 0
			for name := it.ReadObject(); name != ""; name = it.ReadObject() {
				for it.ReadArray() {
					it.Skip()
					n++
				}
			}
			if it.Error != nil || n != items {
				return errors.Join(it.Error, errItems)
			}
			return nil
		}},
		{"sonic.Valid", func(body []byte) error { // JSON
			if !sonic.Valid(body) {
				return errItems
			}
			return nil
		}},
		{"simdjson.Parse", func(body []byte) (err error) { // JSON, UTF-8; builds a tape with copies of the strings
			parsed, err = simdjson.Parse(body, parsed, simdjson.WithCopyStrings(false))
			return err
		}},
		{"copy", func(body []byte) error { // no validation: the limit of all subjects that read through a window
			for len(body) > 0 {
				body = body[copy(window, body):]
			}
			return nil
		}},
	}
}

// BenchmarkScan scans 850 KB, which fit into a cache, and 110 MB, which do not.
func BenchmarkScan(b *testing.B) {
	for _, size := range []struct {
		name   string
		bodies int
	}{{"warm", 1}, {"cold", 128}} {
		bodies := testactive.Bodies(size.bodies, items)
		total := 0
		for _, body := range bodies {
			total += len(body)
		}
		for _, s := range subjects() {
			b.Run(size.name+"/"+s.name, func(b *testing.B) {
				if s.name == "simdjson.Parse" && !simdjson.SupportedCPU() {
					b.Fatal("the processor lacks AVX2 and CLMUL")
				}
				b.SetBytes(int64(total))
				b.ReportAllocs()
				for b.Loop() {
					for _, body := range bodies {
						if err := s.scan(body); err != nil {
							b.Fatal(err)
						}
					}
				}
			})
		}
	}
}
